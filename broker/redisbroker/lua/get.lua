-- get reads jobs. With a time to wait it registers interest in the end of those
-- that are not final (sorted set B).
-- Call: call id (none), µs to wait, number, ids. Answer: status; for each 0 when it
-- is not there, 1 and the job, or 2 when the answer is large enough without it.

local function get(arg)
	local _, wait, n, i = unpack_('>c16I8I4', arg)
	Q.promote(200)
	Count.flush()
	Buf.flush()
	local out, bytes = { OK }, 0
	for k = 1, n do
		local id
		id, i = unpack_('>c16', arg, i)
		local j = bytes <= 8388608 and Job.whole(id)
		if j == false then
			out[k + 1] = '\2'
		elseif j then
			out[k + 1] = '\1' .. Job.show(j)
			bytes = bytes + #out[k + 1]
			if wait > 0 and j.state <= LEASED then
				call('ZADD', P .. 'B', Q.now + wait, id)
				Q.await = max(Q.await, Q.now + wait)
			end
		else
			out[k + 1] = '\0'
		end
	end
	return table.concat(out)
end

return run(get)
