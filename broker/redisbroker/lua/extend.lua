-- extend is a heartbeat for the leases of one queue.
-- Call: call id (none without log lines, which a repeat does not add again), TTL µs, number; for each: id, token, whether it says
-- something, percent (255: unchanged), note, number of log lines, lines.
-- Answer: status; for each: 0 lost, 1 held, 2 to be cancelled, and the expiry.
-- It writes KEYS[1], j, x, e.

-- noted keeps what a running handler says of itself: of the lines the last 100,
-- and of those what 8 KiB hold.
local function noted(j, percent, note, lines)
	if percent ~= 255 then Job.set(j, 'p', string.char(percent) .. note) end
	if #lines == 0 then return end
	local all, s, i = {}, Job.get(j, 'l') or '', 1
	while i <= #s do
		local line
		line, i = unpack_('>I2c0', s, i)
		all[#all + 1] = line
	end
	for _, line in ipairs(lines) do all[#all + 1] = string.sub(line, 1, 1024) end
	local keep, bytes = {}, 0
	for k = #all, max(1, #all - 99), -1 do
		bytes = bytes + #all[k]
		if bytes > 8192 then break end
		table.insert(keep, 1, pack('>I2', #all[k]) .. all[k])
	end
	Job.set(j, 'l', table.concat(keep))
end

local function extend(arg)
	local call_id, ttl, n, i = unpack_('>c16I8I4', arg)
	local expires, told = Q.now + ttl, Calls.get(call_id)
	local out = { OK }
	for k = 1, n do
		local id, token, says, percent, note, count
		id, token, says, percent, note, count, i = unpack_('>c16I8BBI2c0I4', arg, i)
		local lines = {}
		for line = 1, count do lines[line], i = unpack_('>I4c0', arg, i) end
		local j = Job.load(id)
		if j and j.state == LEASED and j.token == token and j.expires > Q.now then
			j.expires = expires
			Buf.zset(P .. 'e', id, expires)
			Q.lease = min(Q.lease, expires)
			if told then lines = {} end
			if says == 1 then noted(j, percent, note, lines) end
			Job.save(j)
			out[k + 1] = (Job.is(j, ASKED) and '\2' or '\1') .. pack('>I8', expires)
		else
			out[k + 1] = '\0' .. pack('>I8', 0)
		end
	end
	Calls.keep(call_id, '1')
	return table.concat(out)
end

Calls.partly = true -- what is remembered of a call is no answer
return run(extend)
