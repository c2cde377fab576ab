-- outbox forgets follow-ups that are delivered. Call: call id (none), number,
-- numbers of entries. Answer: status.

local function outbox(arg)
	local _, n, i = unpack_('>c16I4', arg)
	for _ = 1, n do
		local no
		no, i = unpack_('>c6', arg, i)
		call('HDEL', P .. 'O', no)
	end
	return OK
end

return run(outbox)
