-- explain says why a job is not running now.
-- Call: call id (none), id. Answer: status, reason (see explain.go), a number, a
-- time µs, a name, number of jobs, ids.

local function say(reason, n, at, name, ids)
	return OK .. pack('>BI8I8', reason, n or 0, at or 0) .. str(name or '') .. pack('>I4', ids and #ids or 0) .. table.concat(ids or {})
end

local FINAL, RUNS, SOON, STOPPED, NOBODY, LIMIT, RATE, MEMBERS, BEHIND, NOTHING, NOTFOUND, MOVING = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12

-- holders lists at most ten leased jobs that a limit counts with a lane.
local function holders(r, l)
	local ids, value = {}, Gate.value(r, l)
	for _, id in ipairs(call('ZRANGE', P .. 'L3', 0, 999)) do
		local j = Job.load(string.sub(id, 7))
		if j and j.state == LEASED then
			for _, o in ipairs(Gate.of(j.task)) do
				if o == r and Gate.value(o, j) == value then ids[#ids + 1] = j.id end
			end
		end
		if #ids == 10 then break end
	end
	return ids
end

-- gate says what refuses a job now: its ordered group before a limit on running
-- jobs, that before the rate that lasts longest.
local function gate(l, j)
	if l.ordered then
		local h = Gate.holder(l.value)
		if h and h ~= j.id then return say(LIMIT, 0, 0, '', { h }) end
	end
	local rate, until_
	for _, r in ipairs(Gate.of(l.task)) do
		local m = Gate.meter(r, Gate.value(r, l))
		if r.running > 0 then
			if m.n >= r.running then return say(LIMIT, m.n, 0, r.name, holders(r, l)) end
		else
			local at = Gate.allowed(m)
			if at > Q.now and (not rate or at > until_) then rate, until_ = r, at end
		end
	end
	if rate then return say(RATE, 0, until_, rate.name) end
end

local function is_next(l, j)
	if Lane.first(l) ~= j.id then return false end
	local name = Task.named(l.task)
	for _, w in ipairs(Worker.live()) do
		if not w.tasks or w.tasks[name] then
			local tasks = Task.all()
			if w.tasks then
				tasks = {}
				for _, n in ipairs(w.names) do
					local no = Task.find(n)
					if no then tasks[#tasks + 1] = no end
				end
			end
			local best, first = Pick.next(tasks)
			if best and best.id == l.id and first == j.id then return true end
		end
	end
	return false
end

-- ahead counts what goes before a job, looking at no more than 1,000.
local function ahead(l, j)
	local at, sq = j.runat, pack('>I6', j.pseq)
	if Lane.first(l) == j.id then at, sq = l.head.at, l.head.sq end
	local own, n, goes, others = 0, 0, {}, {}
	local first_at, first_sq = at, sq
	local w = Walk.state(READY, 0, 0)
	for _ = 1, 1000 do
		local k = Walk.next(w)
		if not k then break end
		local name = Lane.name(k)
		local o = Lane.get(name)
		if goes[name] == nil then goes[name] = Worker.takes(Task.named(k.task)) and not Gate.refuses(o, Lane.first(o)) end
		local ks = pack('>I6', k.pseq)
		if not goes[name] or k.id == j.id or k.prio < j.prio then
		elseif k.prio > j.prio then
			n = n + 1
		elseif k.tenant ~= j.tenant then
			local t = others[k.tenant]
			if not t then t = { n = 0, at = k.runat, sq = ks }; others[k.tenant] = t end
			t.n = t.n + 1
			if k.runat < t.at or k.runat == t.at and less(ks, t.sq) then t.at, t.sq = k.runat, ks end
		elseif k.runat < at or k.runat == at and less(ks, sq) then
			own = own + 1
			if k.runat < first_at or k.runat == first_at and less(ks, first_sq) then first_at, first_sq = k.runat, ks end
		end
	end
	local weigh = function(t) return Q.is(WEIGHTS) and tonumber(call('HGET', P .. 'V', t) or 1) or 1 end
	for tenant, t in pairs(others) do
		local turns = floor(own * weigh(tenant) / weigh(j.tenant))
		local theirs, ours = Turn.effective(l.pb, tenant), Turn.effective(l.pb, j.tenant)
		if theirs < ours or theirs == ours and (t.at < first_at or t.at == first_at and less(t.sq, first_sq)) then turns = turns + 1 end
		n = n + min(t.n, turns)
	end
	return max(n + own, 1)
end

local function explain(arg)
	local _, id = unpack_('>c16c16', arg)
	Q.promote(200)
	local j = Job.load(id)
	if not j then return say(NOTFOUND) end
	if j.state >= DONE then return say(FINAL, j.state * 32 + j.reason) end
	if j.state == LEASED then return say(RUNS, 0, j.expires, Job.worker(j)) end
	if Job.is(j, WAITS) then return say(MEMBERS, tonumber(Job.get(j, 'n') or Job.ext(j).size), Job.ext(j).size) end
	if j.state == SCHEDULED then return say(SOON, j.runat - (Job.is(j, WALL) and Q.wall or Q.now), j.runat) end
	if Q.is(RESTS) then
		local m = Move.read()
		return say(MOVING, m.state, 0, m.peer)
	end
	if Q.is(PAUSED) then return say(STOPPED) end
	if not Worker.takes(Task.named(j.task)) then return say(NOBODY, 0, 0, Task.named(j.task)) end
	Lane.flush()
	Gate.rouse()
	local l = Lane.get(Lane.name(j))
	local refused = gate(l, j)
	if refused then return refused end
	if is_next(l, j) then return say(NOTHING) end
	Buf.flush()
	return say(BEHIND, ahead(l, j))
end

return run(explain)
