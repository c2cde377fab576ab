-- take takes what leaves a queue next out of it, and gives it out until it has arrived.
-- Call: call id (none), move, runner, µs that it is waited for, number of the batch,
-- most jobs, most bytes.
-- Answer: status (conflict: the record says no), number of the batch that is kept,
-- steady clock µs, jobs that are left, leased ones of them, follow-ups that are not
-- delivered yet, whether only settings are left to take, the batch, "" for none (see moved in movepack.go).

-- some lists the ids of at most n jobs that nobody runs, list by list.
local function some(n)
	local ids = {}
	local function add(key)
		for _, m in ipairs(call('ZRANGE', P .. key, 0, n - #ids - 1)) do ids[#ids + 1] = string.sub(m, 7) end
	end
	add('L1')
	for _, pb in ipairs(call('ZRANGE', P .. 'r', 0, -1)) do
		if #ids >= n then break end
		for _, m in ipairs(call('ZRANGE', P .. 'h' .. pb, 0, n - #ids - 1)) do
			if #ids >= n then break end
			add('l' .. string.sub(m, 7))
		end
	end
	for _, key in ipairs({ 'L4', 'L5', 'L6' }) do
		if #ids < n then add(key) end
	end
	return ids
end

-- size is what a job takes in a batch, but for what is small.
local function size(j)
	local n = #j.rec
	if Job.is(j, EXTRA) then n = n + call('HSTRLEN', P .. 'x' .. j.id, 'e') + call('HSTRLEN', P .. 'x' .. j.id, 'r') end
	return n
end

-- detach takes a job out of the queue and packs it.
local function detach(j)
	local x, held, until_ = Job.ext(j), 0, 0
	if x.key then
		local id, digest, at = Key.holder(j.task, x.key)
		if id == j.id then
			held, until_ = 1, at
			Move.away(j.task, x.key, id, digest, at)
		end
	end
	local group = j.group ~= '' and j.group or j.tenant
	local holds = Job.is(j, ORDERED) and Gate.holder(group) == j.id and 1 or 0
	local keep = Job.is(j, KEPT) and tonumber(call('ZSCORE', P .. 'k', j.id) or 0) or 0
	local out = Job.show(j) .. pack('>BI8BI8', held, until_, holds, keep)
	Life.leave(j)
	Life.letgo(j)
	Life.remove(j, true)
	return out
end

local function jobs(most, bytes)
	Lane.flush()
	Count.flush()
	Buf.flush()
	local out, all = {}, 0
	for _, id in ipairs(some(most)) do
		local j = Job.whole(id)
		if j and j.state ~= LEASED then
			all = all + size(j)
			if #out > 0 and all > bytes then break end
			out[#out + 1] = detach(j)
		end
	end
	return out
end

-- keys takes keys that are held for a time by jobs that are gone.
local function keys(most)
	local out = {}
	for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'U', '(' .. string.format('%.0f', Q.now), '+inf', 'LIMIT', 0, most)) do
		local task, key = string.sub(name, 1, 3), string.sub(name, 4)
		local id, digest, until_ = Key.holder(task, key)
		if id and until_ > 0 then
			out[#out + 1] = pack('>I2', #Task.named(task)) .. Task.named(task) .. pack('>I2', #key) .. key .. id .. digest .. pack('>I8', until_)
			Move.away(task, key, id, digest, until_)
		else
			call('ZREM', P .. 'U', name)
		end
	end
	return out
end

local function signals(most)
	local out = call('ZRANGE', P .. 'B!', 0, most - 1)
	if #out > 0 then call('ZREM', P .. 'B!', unpack(out)) end
	return out
end

local function left() return Q.depth + call('ZCARD', P .. 'L4') + call('ZCARD', P .. 'L5') + call('ZCARD', P .. 'L6') end

-- next_batch takes what is next, jobs first. It returns the batch, "" for none, and
-- whether only settings are left.
local function next_batch(m, most, bytes)
	local j, k = jobs(most, bytes), {}
	local s = signals(most)
	Buf.flush()
	if #j + #s == 0 and left() == 0 then k = keys(most) end
	if #j + #k + #s == 0 then
		call('UNLINK', P .. 'O!')
		return '', left() == 0 and m.settled == 0
	end
	local batch = pack('>I4', #j) .. table.concat(j) .. pack('>I4', #k) .. table.concat(k) .. pack('>I4', #s) .. table.concat(s) .. str('') .. '\0'
	call('SET', P .. 'O!', batch)
	m.batch, m.jobs = m.batch + 1, m.jobs + #j
	return batch, false
end

local function take(arg)
	local _, id, runner, ttl, number, most, bytes = unpack_('>c16c16c16I8I8I4I4', arg)
	local m = Move.read()
	if not m or m.id ~= id or m.state ~= LEAVING or m.runner ~= runner and m['until'] > Q.now then return CONFLICT end
	if number ~= m.batch + 1 and (number ~= m.batch or number == 0) then return CONFLICT end
	Q.promote(200)
	local batch, settings = nil, false
	if number == m.batch + 1 then batch, settings = next_batch(m, most, bytes) else batch = call('GET', P .. 'O!') or '' end
	Move.write(m, { batch = m.batch, jobs = m.jobs, runner = runner, ['until'] = Q.now + ttl })
	Lane.flush()
	Count.flush()
	Buf.flush()
	return OK .. pack('>I8I8I8I8I8B', m.batch, Q.now, left(), call('ZCARD', P .. 'L3'), call('HLEN', P .. 'O'), settings and 1 or 0) .. str(batch)
end

return run(take)
