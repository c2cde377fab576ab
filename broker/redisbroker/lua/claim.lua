-- claim leases ready jobs, best first.
-- Call: call id, flags (1: wait as idle when it comes back short, 2: remember
-- that nothing was there, 4: what was remembered of nothing is over), most jobs, most bytes, TTL µs, how long it waits µs,
-- id of the waiting claim, worker, number of tasks (65535: any), tasks.
-- Answer: status, whether there may be more, µs until the next is due (0: none
-- known), number of jobs, jobs as Job.show packs them.
-- It writes KEYS[1], j, x, l, o, h, r, n, L*, e, w, and u, v, F, W, Y, y, p, m, H, K, z*, Z, i.

local IDLE, MARK, PAST = 1, 2, 4
local sub, byte = string.sub, string.byte
local SMALL = 1024 -- bytes of records that are written anew, many at a time, in place of their headers alone
local STEPS = 100 -- lanes that one claim may find blocked, or take a single job of

-- simple reports whether nothing is special about a ready job's record (see
-- Job.format), and whether it stands in the list of the ready, too.
local function simple(s)
	local state, flags, low = byte(s, 1, 3)
	if state < READY * 32 or state >= LEASED * 32 or flags ~= 0 or low ~= 0 and low ~= APART then return false end
	local x, y = byte(s, 79, 80)
	return x == 0 and y == 0, low ~= 0
end

-- written adds leases to the indexes: what was gathered of these jobs was before.
local function written(listed, leases, workers)
	local L, e, w = P .. 'L3', P .. 'e', P .. 'w'
	Buf.one(L)
	Buf.one(e)
	Buf.hash(w)
	many('ZADD', L, listed)
	many('ZADD', e, leases)
	many('HSET', w, workers)
end

-- quick leases jobs of a lane that no limit binds and no order, from one on up to the
-- first about whose record something is special. It changes headers in place of taking
-- them apart, and writes what they share at once. It returns where it stopped.
local function quick(l, c, members, ids, keys, records, from)
	local sets, listed, leases, workers, passed, size, n = {}, {}, {}, {}, {}, 0, 0
	local front, now = string.char(LEASED * 32) .. '\0\0', pack('>I7', Q.now)
	local times, began, until_ = now .. now .. pack('>I7', c.expires), score(Q.now), string.format('%.0f', c.expires)
	local names, worker, out, room = str(Task.named(l.task)) .. str(c.worker) .. '\0\0', c.worker, c.out, c.bytes
	local seq, at = Q.seq, #out
	for k = from, #ids do
		local s, id = records[k], ids[k]
		local is, apart
		if room > 0 and s and #s >= Job.size then is, apart = simple(s) end
		if not is then break end
		seq, n = seq + 1, n + 1
		local sq, two, token, attempts = pack('>I6', seq), 2 * n, unpack_('>I7I4', s, 58)
		local rec = front .. sub(s, 4, 23) .. sq .. sub(s, 30, 36) .. times .. pack('>I7I4', max(seq, token + 1), attempts + 1) .. sub(s, 69)
		if #s <= SMALL then
			sets[#sets + 1] = keys[k]
			sets[#sets + 1] = rec
		else
			call('SETRANGE', keys[k], 0, sub(rec, 1, Job.size))
		end
		if apart then Buf.zset(P .. 'L2', sub(s, 24, 29) .. id, false) end
		listed[two - 1], listed[two] = began, sq .. id
		leases[two - 1], leases[two] = until_, id
		workers[two - 1], workers[two] = id, worker
		passed[n] = members[k]
		size, room = size + unpack_('>I4', s, 81), room - #s
		out[at + n] = id .. pack('>I4', #s) .. rec .. names
	end
	if n == 0 then return from end
	Q.seq, c.n, c.bytes = seq, c.n + n, room
	if sets[1] then call('MSET', unpack(sets)) end
	written(listed, leases, workers)
	many('ZREM', l.key, passed)
	Lane.touch(l)
	l.stale = true
	local count = Count.task(l.task)
	count[READY], count[LEASED], count[CLAIMED] = count[READY] - n, count[LEASED] + n, count[CLAIMED] + n
	Load.idle_many(l.tenant, n, size)
	Turn.charge(l.pb, l.tenant, n)
	c.served[l.pb] = true
	return from + n
end

-- begin leases a job, read whole, that stands first in lane l.
local function begin(j, c)
	local count = Count.task(j.task)
	Lane.del(c.l, j.runat, j.pseq, j.id)
	Life.unlisted(j)
	count[READY], count[LEASED], count[CLAIMED] = count[READY] - 1, count[LEASED] + 1, count[CLAIMED] + 1
	Load.idle(j.tenant, j.bytes, -1)
	j.state, j.reason, j.ended = LEASED, R_none, 0
	Job.mark(j, ASKED, false)
	j.flags = band(j.flags, bnot(APART + DUE))
	j.changed, j.claimed, j.expires, j.eseq = Q.now, Q.now, c.expires, Q.next()
	j.token = max(j.eseq, j.token + 1)
	j.attempts = j.attempts + 1
	Life.listed(j)
	Buf.zset(P .. 'e', j.id, c.expires)
	Buf.hset(P .. 'w', j.id, c.worker)
	if Job.is(j, EXTRA) then call('HDEL', P .. 'x' .. j.id, 'p', 'l') end
	if j.xlen > 0 then
		local x = Job.ext(j)
		if x.key and x.hold == 1 then Key.free(j) end
		if x.start then Buf.zset(P .. (Job.is(j, WALL) and 's1' or 's0'), j.id, false) end
	end
	if Q.is(LIMITS) then
		Gate.counted(j, 1)
		for _, r in ipairs(Gate.of(j.task)) do
			if r.running == 0 then Gate.take(Gate.meter(r, Gate.value(r, j))) end
		end
	end
	if c.l.ordered and not Gate.holder(c.l.value) then Gate.hold(c.l.value, j.id) end
	Turn.charge(c.l.pb, j.tenant, 1)
	c.served[c.l.pb] = true
	Job.save(j)
	Wake.tell(j, c.worker)
	c.n = c.n + 1
	c.out[c.n] = Job.show(j)
	c.bytes = c.bytes - #j.rec
end

-- slowly claims a job that is not one for quick.
local function slowly(l, c, id)
	local j = Job.whole(id)
	if not j or j.state ~= READY then
		Lane.strip(l, id)
	elseif Life.late(j) then
		Life.final(j, CANCELLED, R_not_started, {})
		c.ended = true -- which may free a gate, and make a completion job ready
	else
		begin(j, c)
	end
end

-- first lists at most n of the first jobs of a lane, as long as they stand before a
-- spot, if one is given.
local function first(l, n, at, sq)
	if not at then return call('ZRANGE', l.key, 0, n - 1) end
	local r, members = call('ZRANGE', l.key, 0, n - 1, 'WITHSCORES'), {}
	for i = 1, #r, 2 do
		local m, place = r[i], tonumber(r[i + 1])
		if i > 1 and (place > at or place == at and less(sq, m)) then break end
		members[#members + 1] = m
	end
	return members
end

-- take claims at most n of the first jobs of a lane, as long as they stand before
-- the spot (at, sq) of another one. free says that nothing but their records can
-- make them special.
local function take(l, c, n, at, sq, free)
	c.l = l
	if not free then
		slowly(l, c, Lane.first(l))
		Lane.flush()
		return
	end
	local members, ids, keys = { l.head.sq .. l.head.id }, {}, {}
	if n > 1 then members = first(l, n, at, sq) end
	for k, m in ipairs(members) do
		ids[k] = sub(m, 7)
		keys[k] = P .. 'j' .. ids[k]
	end
	local records, k = call('MGET', unpack(keys)), 1
	while k <= #ids and c.bytes > 0 do
		if Q.watch <= Q.now then k = quick(l, c, members, ids, keys, records, k) end
		if k <= #ids and c.bytes > 0 then slowly(l, c, ids[k]) end
		k = k + 1
	end
	Lane.flush()
end

-- pick lets the lanes of the wanted tasks compete. It returns whether it stopped
-- because it had found too many blocked.
local function pick(tasks, c)
	local slots, more = Pick.slots(tasks)
	local steps = 0
	while c.n < c.most and c.bytes > 0 do
		local best, second = Pick.leaders(slots)
		if not best then return more end
		local l = Lane.get(best.lane)
		local gate, until_
		local bound = l.ordered or Q.is(LIMITS) -- else no gate is one for it
		if Pick.real(best, l) and bound then gate, until_ = Gate.refuses(l, Lane.first(l)) end
		steps = steps + 1
		if best.slot.stale then
			if steps >= STEPS then return true end
		elseif gate then
			Pick.away(slots, best, l, gate, until_)
			if steps >= STEPS then return true end
		else
			local n, at, sq = 1, nil, nil
			local free = not bound or not l.ordered and Gate.of(l.task) == NONE
			if free and not c.shared[best.pb] then
				if Pick.alone(slots, best) then
					local size = Q.rbytes / max(Q.ready, 1) -- as they are on the average
					n = max(min(c.most - c.n, 64, floor(c.bytes / (size + 300))), 1)
					if second and second.pb == best.pb then at, sq = second.at, second.sq end
				else
					c.shared[best.pb] = true -- so it stays while this claim lasts, or costs little
				end
			end
			local now = Turn.now(best.pb)
			take(l, c, n, at, sq, free)
			if c.ended then
				slots, c.ended = Pick.slots(tasks), false
			else
				Pick.served(slots, best, now)
			end
			if steps >= STEPS then return true end
		end
	end
	return true
end

-- waits reports whether the queue has a ready job of the wanted tasks, or of one
-- that a live worker takes.
local function waits(tasks)
	for _, no in ipairs(tasks) do
		if Count.task(no)[READY] > 0 then return true end
	end
	for _, no in ipairs(Task.all()) do
		if Count.task(no)[READY] > 0 and Worker.takes(Task.named(no)) then return true end
	end
	return false
end

-- rest forgets who was served how much where nothing is ready any more, or
-- nothing that this claim or a live worker would take.
local function rest(tasks, served)
	local known, some
	for pb in pairs(served) do
		local busy = Lane.busy(pb)
		if busy and not known then known, some = true, waits(tasks) end
		if not busy or not some then Turn.forget(pb, busy) end
	end
end

-- due is how long until somebody should look again; 0 means that none is known.
local function due()
	if Q.due0 < NEVER then Q.due0 = Life.bound('d0') end
	if Q.due1 < NEVER then Q.due1 = Life.bound('d1') end
	if Q.wake < NEVER then Q.wake = Life.bound('W') end
	local next = min(Q.due0 - Q.now, Q.due1 - Q.wall, Q.wake - Q.now)
	if next > NEVER / 2 or Q.is(STILL) then return 0 end
	return max(next, 1)
end

-- again lists the leases of a claim made before that are still valid: of which is
-- remembered, behind whether there was more, when it was and the numbers that jobs
-- got meanwhile.
local function again(was)
	local jobs = {}
	if #was < 20 then return jobs end
	local at, from, to = unpack_('>I8I6I6', was, 2)
	Buf.one(P .. 'L3')
	for _, m in ipairs(call('ZRANGEBYSCORE', P .. 'L3', at, at)) do
		local seq = unpack_('>I6', m)
		local j = seq > from and seq <= to and Job.load(sub(m, 7))
		if j and j.state == LEASED and j.eseq == seq and j.expires > Q.now then jobs[#jobs + 1] = Job.show(j) end
	end
	return jobs
end

local function answer(more, jobs)
	return OK .. pack('>BI8I4', more and 1 or 0, due(), #jobs) .. table.concat(jobs)
end

local function tasks_of(arg, i, n)
	if n == 65535 then return Task.all() end
	local tasks, seen = {}, {}
	for _ = 1, n do
		local name
		name, i = unpack_('>I2c0', arg, i)
		local no = Task.find(name)
		if no and not seen[no] then
			seen[no] = true
			tasks[#tasks + 1] = no
		end
	end
	return tasks
end

local function wait_for(arg, i, n, waiter, wait)
	local names, all = {}, nil
	if n ~= 65535 then
		all = {}
		for k = 1, n do names[k], i = unpack_('>I2c0', arg, i) end
		for k, name in ipairs(names) do all[k] = Task.make(name) end
	end
	Wake.wait(waiter, all, Q.now + wait)
end

local function claim(arg)
	local c = { n = 0, out = {}, served = {}, shared = {} }
	local id, flags, ttl, wait, waiter, n, i
	id, flags, c.most, c.bytes, ttl, wait, waiter, c.worker, n, i = unpack_('>c16BI4I4I8I8c16I2c0I2', arg)
	local was = Calls.get(id)
	if was and (was ~= '' or band(flags, PAST) == 0) then return answer(string.byte(was) == 1, again(was)) end
	local more = Q.promote(200)
	more = Q.expire(100) or more
	if Q.wake <= Q.now then Gate.rouse() end
	local tasks = tasks_of(arg, i, n)
	if not Q.is(STILL) then
		c.expires = Q.now + ttl
		local from = Q.seq
		Lane.flush()
		more = pick(tasks, c) or more
		if c.n > 0 then
			Q.lease = min(Q.lease, c.expires)
			rest(tasks, c.served)
			Calls.keep(id, pack('>BI8I6I6', more and 1 or 0, Q.now, from, Q.seq))
		end
	end
	if c.n == 0 then
		if band(flags, MARK) ~= 0 then Calls.keep(id, '') end
		if band(flags, IDLE) ~= 0 and not more then wait_for(arg, i, n, waiter, wait) end
	end
	return answer(more, c.out)
end

Calls.partly = true -- what is remembered of a call is no whole answer
return run(claim)
