-- fast is the way of most enqueues of one job, before all the rest of the script is
-- defined: plain jobs of one task for a lane that has others, while nobody waits or
-- watches and nothing is due. However many calls there are, they share all commands
-- but one. It returns the answers, or nil and has changed nothing: then the long
-- way does it.

local call, pack, unpack_, sub = redis.call, struct.pack, struct.unpack, string.sub

local function fast()
	local s = call('GET', KEYS[1])
	if not s or string.byte(s) ~= VERSION then return nil end
	local seq, last, off, _, _, flags, depth, bytes, ready, rbytes, high = unpack_('>I6I8i8I4I3I4I6I8I6I8I6', s, 2)
	local due0, due1 = unpack_('>I8I8', s, 103)
	local watch, _, idle = unpack_('>I8I8I8', s, 167)
	if bit.band(flags, CAPS) ~= 0 then return nil end
	local P, answers, seen = sub(KEYS[1], 1, -2), {}, {}
	local wall, now = Time.read(ARGV[1])
	if not now then
		now = wall + off
		if now < last then now, off = last, last - wall end
	end
	now = math.max(now, last)
	if watch > now or idle > now or due0 <= now or due1 <= wall then return nil end
	local name, ids, rests, calls = nil, {}, {}, {}
	for k = 1, #ARGV do
		local id, how, count, i = unpack_('>c16BI4', ARGV[k])
		if how ~= 2 or count ~= 1 or seen[id] then return nil end
		local job, task, rest = unpack_('>c16I2c0I4c0', ARGV[k], i)
		if name and name ~= task then return nil end
		seen[id], name, ids[k], rests[k], calls[k], answers[k] = true, task, job, rest, P .. 'i' .. id, '\0\0' .. job
	end
	if #ids > 1 and call('EXISTS', unpack(calls)) > 0 then return nil end
	local no = call('HGET', P .. 'T', name)
	if not no then return nil end
	local lane = P .. 'l' .. no .. pack('>I4BI2', PLAIN, 0, 0)
	local head = call('ZRANGE', lane, 0, 0, 'WITHSCORES')[2]
	if not head or tonumber(head) > now then return nil end
	local n = call('HGET', P .. 'n', no)
	if not n then return nil end
	-- The first write: one call alone is looked up and kept by one command.
	if #ids == 1 and not call('SET', calls[1], '\0', 'NX', 'PX', CALL_MS) then return nil end
	seq = math.max(seq, math.floor(wall / 1000) * 32)
	local at = pack('>I7', now)
	local front, middle = string.char(READY * 32) .. '\0\0' .. no .. pack('>I4', PLAIN) .. at, at .. at .. string.rep('\0', 25)
	local records, places = {}, {}
	for k = 1, #ids do
		local id, rest, sq = ids[k], rests[k], pack('>I6', seq + k)
		records[2 * k - 1], records[2 * k] = P .. 'j' .. id, front .. sq .. sq .. middle .. rest
		places[2 * k - 1], places[2 * k] = now, sq .. id
		local size = unpack_('>I4', rest, 13)
		bytes, rbytes = bytes + size, rbytes + size
		if #ids > 1 then call('SET', calls[k], '\0', 'PX', CALL_MS) end
	end
	call('ZADD', lane, unpack(places))
	seq, depth, ready = seq + #ids, depth + #ids, ready + #ids
	call('HSET', P .. 'n', no, sub(n, 1, 6) .. pack('>I6', unpack_('>I6', n, 7) + #ids) .. sub(n, 13, 36) ..
		pack('>I6', unpack_('>I6', n, 37) + #ids) .. sub(n, 43))
	records[#records + 1] = KEYS[1]
	records[#records + 1] = sub(s, 1, 1) .. pack('>I6I8i8', seq, now, off) .. sub(s, 24, 34) ..
		pack('>I6I8I6I8I6', depth, bytes, ready, rbytes, math.max(high, depth)) .. sub(s, 69)
	call('MSET', unpack(records))
	return answers
end
