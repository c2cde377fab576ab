-- settle ends leases; each is judged alone.
-- Call: call id, number; for each: id, token, kind, delay µs, whether it has a
-- result, result, error text, number of follow-ups; for each of these a call id,
-- the queue ("" for this one) and the job.
-- Answer: status, and that alone when all were acks that took place and had no more
-- to say; for each: code (0 taken place, 1 not found, 2 lost), state,
-- number of follow-ups; for each of these how (0 to 2 as enqueue has it, 3: it is
-- in the outbox under its number, for another queue), id, call id, number.
-- It writes what a job's end writes: see life.lua; and O, the outbox.

local PLAIN_ACK = '\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- from its kind on: no delay, result, error nor follow-ups
local ACK, NACK, SNOOZE, RELEASE, BURY, CANCEL = 1, 2, 3, 4, 5, 6

-- judge does what a settlement of a valid lease asks for.
local function judge(j, kind, delay, result, text)
	local failures = j.failures
	if kind == NACK or kind == BURY then failures = failures + 1 end
	if kind == ACK then
		Life.final(j, DONE, R_acked, { kind = kind, result = result })
	elseif kind == CANCEL or Job.is(j, ASKED) then
		Life.final(j, CANCELLED, R_cancelled, { kind = kind, failures = failures, err = text ~= '' and text or nil })
	elseif kind == BURY then
		Life.final(j, DEAD, R_buried, { kind = kind, failures = failures, err = text })
	elseif kind == NACK and j.attempts >= j.most then
		Life.final(j, DEAD, R_attempts, { kind = kind, failures = failures, err = text })
	elseif kind == NACK then
		Life.again(j, R_retry, { kind = kind, failures = failures, err = text, delay = delay })
	elseif kind == SNOOZE then
		Life.again(j, R_snoozed, { kind = kind, attempts = j.attempts - 1, delay = delay })
	else
		Life.again(j, R_released, { kind = kind, attempts = j.attempts - 1 })
	end
end

-- follow enqueues a follow-up, or puts it into the outbox.
local function follow(f)
	if f.queue == '' then
		local how, id = Add.one(f.job)
		return string.char(how) .. id .. f.call .. pack('>I6', 0)
	end
	local no = pack('>I6', Q.next())
	call('HSET', P .. 'O', no, f.call .. pack('>I2', #f.queue) .. f.queue .. f.packed)
	return '\3' .. f.job.id .. f.call .. no
end

-- read unpacks a settlement. A plain ack has a fixed part of zeros alone.
local function read(arg, i)
	if string.sub(arg, i + 24, i + 45) == PLAIN_ACK then
		local id, token = unpack_('>c16I8', arg, i)
		return { id = id, token = token, kind = ACK, text = '', follow = NONE, simple = true }, i + 46
	end
	local s, n, has = { follow = NONE }, nil, nil
	s.id, s.token, s.kind, s.delay, has, s.result, s.text, n, i = unpack_('>c16I8BI8BI4c0I4c0I4', arg, i)
	if has == 0 then s.result = nil end
	if n > 0 then s.follow = {} end
	for k = 1, n do
		local f = {}
		f.call, f.queue, i = unpack_('>c16I2c0', arg, i)
		local from = i
		f.job, i = Add.read(arg, i)
		f.packed = string.sub(arg, from, i - 1)
		s.follow[k] = f
	end
	return s, i
end

-- quick acks a job about which nothing is special, as most: it is dropped. See
-- Job.format. It returns whether it did.
local function quick(id, token, rec, acked)
	local state, flags = unpack_('>BI2', rec)
	if state ~= LEASED * 32 or flags ~= 0 or string.sub(rec, 77, 80) ~= '\0\0\0\0' then return false end
	local expires, is = unpack_('>I7I7', rec, 51)
	if is ~= token or expires <= Q.now then return false end
	local no = string.sub(rec, 4, 6)
	if Q.is(LIMITS) and Gate.of(no) ~= NONE then return false end
	local c = Count.task(no)
	c[ACKED], c[LEASED] = c[ACKED] + 1, c[LEASED] - 1
	local size = unpack_('>I4', rec, 81)
	Q.depth, Q.bytes = Q.depth - 1, Q.bytes - size
	local n = #acked.ids + 1
	acked.ids[n], acked.listed[n] = id, string.sub(rec, 24, 29) .. id
	Buf.del(P .. 'j' .. id)
	return true
end

-- records reads those of the settlements that may be quick acks, all at once where
-- they are small.
local function records(list)
	local keys, recs = {}, {}
	for _, s in ipairs(list) do
		if s.simple then keys[#keys + 1] = Job.key(s.id) end
	end
	if #keys == 0 then return recs end
	if Q.bytes > 1000 * Q.depth then
		for k, key in ipairs(keys) do recs[k] = call('GETRANGE', key, 0, 83) end
		return recs
	end
	return call('MGET', unpack(keys))
end

local DONE_AT_ONCE = '\0\4\0\0\0\0' -- taken place, the state, no follow-ups

local function one(s)
	local j = Job.load(s.id)
	if not j then return '\1\0' .. pack('>I4', 0) end
	local valid = j.state == LEASED and j.token == s.token and j.expires > Q.now
	if not valid then
		if j.state ~= LEASED and j.token == s.token and j.ended == s.kind and s.token > 0 then
			local out = { '\0' .. string.char(j.state) .. pack('>I4', #s.follow) }
			for k, f in ipairs(s.follow) do out[k + 1] = '\1' .. f.job.id .. f.call .. pack('>I6', 0) end
			return table.concat(out)
		end
		return '\2' .. string.char(j.state) .. pack('>I4', 0)
	end
	judge(j, s.kind, s.delay, s.result, s.text)
	local out = { '\0' .. string.char(j.state) .. pack('>I4', #s.follow) }
	for k, f in ipairs(s.follow) do out[k + 1] = follow(f) end
	return table.concat(out)
end

local function settle(arg)
	local id, n, i = unpack_('>c16I4', arg)
	local was = Calls.get(id)
	if was then return was end
	Q.promote(100)
	local plain = not Q.is(RETAINS) and Q.watch <= Q.now and Q.await <= Q.now
	local list = {}
	for k = 1, n do
		list[k], i = read(arg, i)
		list[k].simple = plain and list[k].simple
	end
	local out, recs, acked, at, judged = {}, records(list), { ids = {}, listed = {} }, 0, {}
	for k, s in ipairs(list) do
		local done
		if s.simple then
			at = at + 1
			local rec = recs[at]
			done = rec and #rec >= Job.size and not judged[s.id] and not Buf.gone[P .. 'j' .. s.id] and quick(s.id, s.token, rec, acked)
		end
		judged[s.id] = true -- its record is not any more what was read
		out[k] = done and DONE_AT_ONCE or one(s)
	end
	many('ZREM', P .. 'L3', acked.listed)
	many('ZREM', P .. 'e', acked.ids)
	many('HDEL', P .. 'w', acked.ids)
	local answer = #acked.ids == n and OK or OK .. table.concat(out)
	Calls.keep(id, answer)
	return answer
end

return run(settle)
