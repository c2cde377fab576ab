-- claim leases ready jobs, best first.
-- Call: call id, flags (1: wait as idle when it comes back short, 2: remember
-- that nothing was there, 4: what was remembered of nothing is over), most jobs, most bytes, TTL µs, how long it waits µs,
-- id of the waiting claim, worker, number of tasks (65535: any), tasks.
-- Answer: status, whether there may be more, µs until the next is due (0: none
-- known), number of jobs, jobs as Job.show packs them.
-- It writes KEYS[1], j, x, l, o, h, r, n, L*, e, w, and u, v, F, W, Y, y, p, m, H, K, z*, Z, i.

local IDLE, MARK, PAST = 1, 2, 4
local STEPS = 100 -- lanes that one claim may find blocked, or take a single job of

-- quick leases a job of a lane that no limit binds and no order, as far as nothing
-- is special about its record s (see Job.format): most jobs. It patches the header
-- in place of taking it apart. It returns whether it did.
local function quick(c, id, member, s)
	local state, flags = unpack_('>BI2', s)
	if state < READY * 32 or state >= LEASED * 32 or flags ~= 0 and flags ~= APART or string.sub(s, 79, 80) ~= '\0\0' then return false end
	local token, attempts = unpack_('>I7I4', s, 58)
	local seq = Q.next()
	local sq = pack('>I6', seq)
	token = max(seq, token + 1)
	local head = c.front .. string.sub(s, 4, 23) .. sq .. string.sub(s, 30, 36) .. c.times .. pack('>I7I4', token, attempts + 1) ..
		string.sub(s, 69, 84)
	call('SETRANGE', P .. 'j' .. id, 0, head)
	if flags == APART then c.apart[string.sub(s, 24, 29) .. id] = false end
	c.listed[sq .. id] = Q.now
	c.leases[id] = c.expires
	c.workers[id] = c.worker
	c.passed[#c.passed + 1] = member
	c.size = c.size + unpack_('>I4', s, 81)
	c.n = c.n + 1
	c.keep[c.n] = id .. pack('>I8', token)
	c.out[c.n] = id .. pack('>I4', #s) .. head .. string.sub(s, 85) .. c.names
	c.bytes = c.bytes - #s
	return true
end

-- prepare makes ready what quick shares among the jobs of a lane.
local function prepare(c, l)
	c.front = string.char(LEASED * 32) .. '\0\0'
	local now = pack('>I7', Q.now)
	c.times = now .. now .. pack('>I7', c.expires)
	c.names = str(Task.named(l.task)) .. str(c.worker) .. '\0\0'
	c.apart = Buf.set(P .. 'L2')
	c.listed, c.leases, c.workers = Buf.set(P .. 'L3'), Buf.set(P .. 'e'), Buf.fields(P .. 'w')
	c.passed, c.size = {}, 0
end

-- account counts what quick took of a lane.
local function account(c, l)
	local n = #c.passed
	if n == 0 then return end
	many('ZREM', l.key, c.passed)
	Lane.touch(l)
	l.stale = true
	local count = Count.task(l.task)
	count[READY], count[LEASED], count[CLAIMED] = count[READY] - n, count[LEASED] + n, count[CLAIMED] + n
	Load.idle_many(l.tenant, n, c.size)
	Turn.charge(l.pb, l.tenant, n)
	c.served[l.pb] = true
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
	c.keep[c.n] = j.id .. pack('>I8', j.token)
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
	else
		begin(j, c)
	end
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
	local r = { l.head.sq .. l.head.id, l.head.at }
	if n > 1 then r = call('ZRANGE', l.key, 0, n - 1, 'WITHSCORES') end
	local ids, keys, members = {}, {}, {}
	for i = 1, #r, 2 do
		local m, place = r[i], tonumber(r[i + 1])
		if i > 1 and at and (place > at or place == at and string.sub(m, 1, 6) > sq) then break end
		local k = #ids + 1
		members[k], ids[k] = m, string.sub(m, 7)
		keys[k] = P .. 'j' .. ids[k]
	end
	local records = call('MGET', unpack(keys))
	prepare(c, l)
	for k, id in ipairs(ids) do
		if c.bytes <= 0 then break end
		local s = records[k]
		if Q.watch > Q.now or not s or #s < Job.size or not quick(c, id, members[k], s) then slowly(l, c, id) end
	end
	account(c, l)
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
			local parked = Q.parked
			take(l, c, n, at, sq, free)
			for _, s in ipairs(slots) do
				if s == best.slot or s.c and s.c.pb == best.pb then s.stale = true end
			end
			if Q.parked ~= parked then slots = Pick.slots(tasks) end
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

-- again lists the leases of a claim made before that are still valid: behind
-- whether there was more, id and token of each.
local function again(was)
	local jobs = {}
	for i = 2, #was, 24 do
		local id, token = unpack_('>c16I8', was, i)
		local j = Job.load(id)
		if j and j.state == LEASED and j.token == token and j.expires > Q.now then jobs[#jobs + 1] = Job.show(j) end
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
	local c = { n = 0, out = {}, keep = {}, served = {}, shared = {} }
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
		Lane.flush()
		more = pick(tasks, c) or more
		if c.n > 0 then
			Q.lease = min(Q.lease, c.expires)
			rest(tasks, c.served)
			Calls.keep(id, (more and '\1' or '\0') .. table.concat(c.keep))
		end
	end
	if c.n == 0 then
		if band(flags, MARK) ~= 0 then Calls.keep(id, '') end
		if band(flags, IDLE) ~= 0 and not more then wait_for(arg, i, n, waiter, wait) end
	end
	return answer(more, c.out)
end

return run(claim)
