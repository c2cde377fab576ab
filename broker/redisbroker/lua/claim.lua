-- claim leases ready jobs, best first.
-- Call: call id, flags (1: wait as idle when it comes back short, 2: remember
-- that nothing was there, 4: what was remembered of nothing is over), most jobs, most bytes, TTL µs, how long it waits µs,
-- id of the waiting claim, worker, number of tasks (65535: any), tasks.
-- Answer: status, whether there may be more, µs until the next is due (0: none
-- known), number of jobs, jobs as Job.show packs them.
-- It writes KEYS[1], j, x, l, o, h, r, n, L*, e, w, and u, v, F, W, Y, y, p, m, H, K, z*, Z, i.

local IDLE, MARK, PAST = 1, 2, 4
local EXAMINE = 200 -- lanes that one claim may find blocked

-- begin leases a job, read whole, that stands first in lane l.
local function begin(j, c)
	local count = Count.task(j.task)
	Lane.del(c.l, j.runat, j.pseq, j.id)
	Life.unlisted(j)
	count[READY], count[LEASED], count[CLAIMED] = count[READY] - 1, count[LEASED] + 1, count[CLAIMED] + 1
	Load.idle(j.tenant, j.bytes, -1)
	j.state, j.reason, j.ended = LEASED, R.none, 0
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
	Gate.counted(j, 1)
	for _, r in ipairs(Gate.of(j.task)) do
		if r.running == 0 then Gate.take(Gate.meter(r, Gate.value(r, j))) end
	end
	if c.l.ordered and not Gate.holder(c.l.value) then Gate.hold(c.l.value, j.id) end
	Turn.charge(c.l.pb, j.tenant, 1)
	c.served[c.l.pb] = true
	Job.save(j)
	Wake.tell(j, c.worker)
	c.taken[#c.taken + 1] = j
	c.bytes = c.bytes - #j.rec
end

-- take claims at most n of the first jobs of a lane, as long as they stand before
-- the spot (at, sq) of another one.
local function take(l, c, n, at, sq)
	c.l = l
	local ids = {}
	if n == 1 or l.ordered then
		ids[1] = Lane.first(l)
	else
		local r = call('ZRANGE', l.key, 0, n - 1, 'WITHSCORES')
		for i = 1, #r, 2 do
			local place = tonumber(r[i + 1])
			if i > 1 and at and (place > at or place == at and string.sub(r[i], 1, 6) > sq) then break end
			ids[#ids + 1] = string.sub(r[i], 7)
		end
	end
	for _, id in ipairs(ids) do
		if c.bytes <= 0 then break end
		local j = Job.whole(id)
		if not j or j.state ~= READY then
			Lane.strip(l, id)
		elseif Life.late(j) then
			Life.final(j, CANCELLED, R.not_started, {})
		else
			begin(j, c)
		end
	end
	Lane.flush()
end

-- pick lets the lanes of the wanted tasks compete. It returns whether it stopped
-- because it had found too many blocked.
local function pick(tasks, c)
	local slots, more = Pick.slots(tasks)
	local refused = 0
	while #c.taken < c.most and c.bytes > 0 do
		local best, second = Pick.leaders(slots)
		if not best then return more end
		local l = Lane.get(best.lane)
		local gate, until_ = Gate.refuses(l, Lane.first(l))
		if gate then
			Pick.away(slots, best, l, gate, until_)
			refused = refused + 1
			if refused == EXAMINE then return true end
		else
			local n, at, sq = 1, nil, nil
			if not l.ordered and Gate.of(l.task) == NONE and Pick.alone(slots, best) then
				n = min(c.most - #c.taken, 64)
				if second and second.pb == best.pb then at, sq = second.at, second.sq end
			end
			local parked = Q.parked
			take(l, c, n, at, sq)
			for _, s in ipairs(slots) do
				if s == best.slot or s.c and s.c.pb == best.pb then s.stale = true end
			end
			if Q.parked ~= parked then slots = Pick.slots(tasks) end
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
		local busy = call('EXISTS', P .. 'h' .. pb) == 1
		if busy and not known then known, some = true, waits(tasks) end
		if not busy or not some then Turn.forget(pb, busy) end
	end
end

-- due is how long until somebody should look again; 0 means that none is known.
local function due()
	if Q.due0 < NEVER then Q.due0 = Life.bound('d0') end
	if Q.due1 < NEVER then Q.due1 = Life.bound('d1') end
	local next = min(Q.due0 - Q.now, Q.due1 - Q.wall, Q.wake - Q.now)
	if next > NEVER / 2 or Q.is(PAUSED) then return 0 end
	return max(next, 1)
end

-- again lists the leases of a claim made before that are still valid: behind
-- whether there was more, id and token of each.
local function again(was)
	local jobs = {}
	for i = 2, #was, 24 do
		local id, token = unpack_('>c16I8', was, i)
		local j = Job.load(id)
		if j and j.state == LEASED and j.token == token and j.expires > Q.now then jobs[#jobs + 1] = j end
	end
	return jobs
end

local function answer(more, jobs)
	local out = { OK .. pack('>BI8I4', more and 1 or 0, due(), #jobs) }
	for k, j in ipairs(jobs) do out[k + 1] = Job.show(j) end
	return table.concat(out)
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
	local c = { taken = {}, served = {} }
	local id, flags, ttl, wait, waiter, n, i
	id, flags, c.most, c.bytes, ttl, wait, waiter, c.worker, n, i = unpack_('>c16BI4I4I8I8c16I2c0I2', arg)
	local was = Calls.get(id)
	if was and (was ~= '' or band(flags, PAST) == 0) then return answer(string.byte(was) == 1, again(was)) end
	local more = Life.promote(200)
	more = Life.expired(100) or more
	Gate.rouse()
	local tasks = tasks_of(arg, i, n)
	if not Q.is(PAUSED) then
		c.expires = Q.now + ttl
		Lane.flush()
		more = pick(tasks, c) or more
		if #c.taken > 0 then
			Q.lease = min(Q.lease, c.expires)
			rest(tasks, c.served)
			local keep = { more and '\1' or '\0' }
			for k, j in ipairs(c.taken) do keep[k + 1] = j.id .. pack('>I8', j.token) end
			Calls.keep(id, table.concat(keep))
		end
	end
	if #c.taken == 0 then
		if band(flags, MARK) ~= 0 then Calls.keep(id, '') end
		if band(flags, IDLE) ~= 0 and not more then wait_for(arg, i, n, waiter, wait) end
	end
	return answer(more, c.taken)
end

return run(claim)
