-- settle ends leases; each is judged alone.
-- Call: call id, number; for each: id, token, kind, delay µs, whether it has a
-- result, result, error text, number of follow-ups; for each of these a call id,
-- the queue ("" for this one) and the job.
-- Answer: status; for each: code (0 taken place, 1 not found, 2 lost), state,
-- number of follow-ups; for each of these how (0 to 2 as enqueue has it, 3: it is
-- in the outbox under its number, for another queue), id, call id, number.
-- It writes what a job's end writes: see life.lua; and O, the outbox.

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

local function read(arg, i)
	local s, n = { follow = {} }, nil
	local has
	s.id, s.token, s.kind, s.delay, has, s.result, s.text, n, i = unpack_('>c16I8BI8BI4c0I4c0I4', arg, i)
	if has == 0 then s.result = nil end
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
local function quick(id, token, rec)
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
	Buf.set(P .. 'L3')[string.sub(rec, 24, 29) .. id] = false
	Buf.set(P .. 'e')[id] = false
	Buf.fields(P .. 'w')[id] = false
	Buf.del(P .. 'j' .. id)
	return true
end

local DONE_AT_ONCE = '\0' .. string.char(DONE) .. pack('>I4', 0)

local function one(s)
	if s.kind == ACK and not s.result and #s.follow == 0 and s.simple then
		local key = Job.key(s.id)
		local rec = not Buf.gone[key] and call('GETRANGE', key, 0, 83)
		if rec and #rec == Job.size and quick(s.id, s.token, rec) then return DONE_AT_ONCE end
	end
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
	local out = { OK }
	local simple = not Q.is(RETAINS) and Q.watch <= Q.now and Q.await <= Q.now
	for k = 1, n do
		local s
		s, i = read(arg, i)
		s.simple = simple
		out[k + 1] = one(s)
	end
	local all = table.concat(out)
	Calls.keep(id, all)
	return all
end

return run(settle)
