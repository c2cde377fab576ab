-- held counts the leases of each worker, and ends leases that a client gives back.
-- Call: call id (none), number; for each id and token. Answer: status, number of
-- workers; for each its name and leases.

local function held(arg)
	local _, n, i = unpack_('>c16I4', arg)
	for _ = 1, n do
		local id, token
		id, token, i = unpack_('>c16I8', arg, i)
		local j = Job.load(id)
		if j and j.state == LEASED and j.token == token then
			Life.expire(j, j.expires <= Q.now and R_expired or R_worker_died)
		end
	end
	Buf.flush()
	local by, names, out = {}, {}, {}
	if n == 0 then
		for _, w in ipairs(call('HVALS', P .. 'w')) do
			if not by[w] then names[#names + 1] = w end
			by[w] = (by[w] or 0) + 1
		end
	end
	out[1] = OK .. pack('>I4', #names)
	for k, w in ipairs(names) do out[k + 1] = pack('>I2', #w) .. w .. pack('>I4', by[w]) end
	return table.concat(out)
end

return run(held)
