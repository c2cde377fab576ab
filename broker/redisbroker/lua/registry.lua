-- registry keeps, in a slot of its own, the names of all queues (set q), all
-- workers (hash g), and until when somebody watches (string w).
-- Call: call id (none), what (1 add a queue, 2 read all, 3 register a worker, 4 a
-- worker leaves, 5 watch, 6 drop a part of a queue), name, entry, ms. Answer: status, ms left to watch,
-- number of queues, names, number of workers, each with its entry.

local function all()
	local out = { '' }
	local queues, left = call('SMEMBERS', P .. 'q'), call('PTTL', P .. 'w')
	out[1] = OK .. pack('>I8I4', max(left, 0), #queues)
	for _, q in ipairs(queues) do out[#out + 1] = pack('>I2', #q) .. q end
	local workers, n, at, now = call('HGETALL', P .. 'g'), 0, #out + 1, Worker.real()
	out[at] = ''
	for i = 1, #workers, 2 do
		if unpack_('>I8', workers[i + 1]) > now then
			n = n + 1
			out[#out + 1] = pack('>I2', #workers[i]) .. workers[i] .. str(string.sub(workers[i + 1], 9))
		else
			call('HDEL', P .. 'g', workers[i])
		end
	end
	out[at] = pack('>I4', n)
	return table.concat(out)
end

local answers = {}
for k = 1, #ARGV do
	local _, what, name, entry, ms = unpack_('>c16BI2c0I4c0I8', ARGV[k])
	if what == 1 then
		if call('SADD', P .. 'q', name) == 1 then call('PUBLISH', CHANNEL, 'a') end
	elseif what == 3 then call('HSET', P .. 'g', name, pack('>I8', Worker.real() + ms * 1000) .. entry)
	elseif what == 4 then Worker.leave(name, entry)
	elseif what == 6 then call('SREM', P .. 'q', name)
	elseif what == 5 then call('SET', P .. 'w', '1', 'PX', ms)
	end
	if call('EXISTS', KEYS[1]) == 0 then call('SET', KEYS[1], '\1') end
	answers[k] = all()
end
return answers
