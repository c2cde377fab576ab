-- gate: what can refuse a lane: a limit for one value of its scope (L, limit, a
-- zero, value), or an ordered group (G, group). Lanes that it refused are parked
-- there, and no claim looks at them until it may have room again.
-- Hash Y: parked lane to gate; set y and gate: the tasks that it has parked lanes
-- of; sets X: all gates that have some; F: those that may have room; FX: those that
-- have to be looked at since the limits changed; sorted set W: rates by when they allow the
-- next claim. Hash m and limit: value to what it has counted. Hash H: ordered
-- group to the job that holds it. String R: the limits in force.

local Gate = { rules = nil, meters = {}, holders = {}, fresh = 0 }

function Gate.stand(gate, task) return 'p' .. pack('>I2', #gate) .. gate .. task end

-- load reads the limits: by task, in the order of their names.
function Gate.load()
	Gate.rules, Gate.all = {}, {}
	if not Q.is(LIMITS) then return end
	if Q.is(MOVES) then Gate.fresh = tonumber(call('HGET', P .. 'M', 'fresh') or 0) end
	local s = call('GET', P .. 'R')
	local n, i = unpack_('>I4', s)
	for _ = 1, n do
		local r = {}
		local tasks
		r.name, r.per, r.running, r.count, r.cost, r.csub, r.room, r.rsub, r.full, r.fsub, tasks, i = unpack_('>I2c0BI8I8I8I8I8I8I8I8I2', s, i)
		r.unit, r.tasks = r.count * 1000, {}
		for k = 1, tasks do r.tasks[k], i = unpack_('>I2c0', s, i) end
		Gate.all[#Gate.all + 1] = r
		for _, name in ipairs(r.tasks) do
			local list = Gate.rules[name]
			if not list then list = {}; Gate.rules[name] = list end
			list[#list + 1] = r
		end
	end
end

-- of returns the limits that bind a task.
function Gate.of(task)
	if not Q.is(LIMITS) then return NONE end
	if not Gate.rules then Gate.load() end
	return Gate.rules[Task.named(task)] or NONE
end

-- value is what a limit counts a lane or job by.
function Gate.value(r, l)
	if r.per == 0 then return '' end
	if r.per == 1 or l.group == '' then return l.tenant end
	return l.group
end

function Gate.name(r, value) return 'L' .. r.name .. '\0' .. value end

-- meter returns what a limit has counted for a value.
function Gate.meter(r, value)
	local name = Gate.name(r, value)
	local m = Gate.meters[name]
	if not m then
		m = { r = r, value = value, n = 0, us = 0, sub = 0, rated = 0 }
		local s = call('HGET', P .. 'm' .. r.name, value)
		if s then
			if r.running > 0 then
				m.n = unpack_('>I4', s)
			else
				local count
				m.us, m.sub, m.rated, count = unpack_('>I8I8I8I8', s)
				if count ~= r.count then -- in the parts of the new rate, never earlier
					m.sub = math.ceil(m.sub * r.count / count)
					if m.sub >= r.unit then m.us, m.sub = m.us + 1, m.sub - r.unit end
				end
			end
		end
		Gate.meters[name] = m
	end
	return m
end

-- span adds two exact lengths of time: us microseconds and sub parts of one.
local function span(us, sub, us2, sub2, unit)
	us, sub = us + us2, sub + sub2
	if sub >= unit then us, sub = us + 1, sub - unit end
	return us, sub
end

local function after(us, sub, us2, sub2) return us > us2 or us == us2 and sub > sub2 end

-- bucket is when the interval of a rate's last claim would end. A rate that was
-- changed meanwhile finds its bucket empty at worst. All were empty when the queue had
-- just arrived from another broker: nobody here knows what they let through there.
function Gate.bucket(m)
	local r = m.r
	local us, sub = m.us, m.sub
	local mus, msub = span(m.rated, 0, r.full, r.fsub, r.unit)
	if us > 0 and after(us, sub, mus, msub) then us, sub = mus, msub end
	if Gate.fresh > 0 then
		local eus, esub = span(Gate.fresh, 0, r.full, r.fsub, r.unit)
		if m.rated < Gate.fresh or after(eus, esub, us, sub) then us, sub = eus, esub end
	end
	if us < Q.now then us, sub = Q.now, 0 end
	return us, sub
end

-- allowed is when a rate allows the next claim, in microseconds rounded up.
function Gate.allowed(m)
	local r = m.r
	local us, sub = Gate.bucket(m)
	us, sub = us - r.room, sub - r.rsub
	if sub < 0 then us, sub = us - 1, sub + r.unit end
	if sub > 0 then us = us + 1 end
	return us
end

-- take counts a claim that a rate allows.
function Gate.take(m)
	local us, sub = Gate.bucket(m)
	m.us, m.sub = span(us, sub, m.r.cost, m.r.csub, m.r.unit)
	m.rated, m.dirty = Q.now, true
end

-- counted notes the begin (by 1) or the end (by -1) of a lease of a job.
function Gate.counted(j, by)
	for _, r in ipairs(Gate.of(j.task)) do
		if r.running > 0 then
			local m = Gate.meter(r, Gate.value(r, j))
			m.n, m.dirty = max(m.n + by, 0), true
			if by < 0 and m.n < r.running then Gate.free(Gate.name(r, m.value)) end
		end
	end
end

-- holder returns the job that holds an ordered group, or nil.
function Gate.holder(group)
	local id = Gate.holders[group]
	if id == nil then
		id = call('HGET', P .. 'H', group)
		Gate.holders[group] = id
	end
	return id or nil
end

function Gate.hold(group, id)
	Gate.holders[group] = id or false
	Buf.hset(P .. 'H', group, id)
end

-- full reports whether a limit has no room for a lane, its gate, and until when if
-- it is a rate.
local function full(r, l)
	local m = Gate.meter(r, Gate.value(r, l))
	if r.running > 0 then return m.n >= r.running, Gate.name(r, m.value) end
	local at = Gate.allowed(m)
	return at > Q.now, Gate.name(r, m.value), at
end

local function taken(l, first)
	local holder = l.ordered and Gate.holder(l.value)
	return holder and holder ~= first
end

-- refuses returns the gate that keeps the first job of a lane from being claimed
-- now, and until when if it is a rate; nil for none.
function Gate.refuses(l, first)
	for _, r in ipairs(Gate.of(l.task)) do
		local is, gate, until_ = full(r, l)
		if is then return gate, until_ end
	end
	if taken(l, first) then return 'G' .. l.value, nil end
end

-- keeps reports whether one gate keeps a lane back, whatever others do, and until
-- when if it is a rate.
function Gate.keeps(gate, l, first)
	if gate == 'G' .. l.value then return taken(l, first) end
	for _, r in ipairs(Gate.of(l.task)) do
		local is, name, until_ = full(r, l)
		if name == gate then return is, until_ end
	end
	return false
end

-- park puts a lane among those that wait at a gate.
function Gate.park(l, gate)
	local S, was = Lane.stand(l)
	if was then Gate.leave(l, was, l.stood) else Stand.change(S, l, l.stood, nil) end
	Q.parked = Q.parked + 1
	l.gate = gate
	call('HSET', P .. 'Y', l.id, gate)
	if call('SADD', P .. 'y' .. gate, l.task) == 1 then call('SADD', P .. 'X', gate) end
	Stand.change(Gate.stand(gate, l.task), l, nil, l.stood)
end

-- leave takes a lane that stood with a head from a gate.
function Gate.leave(l, gate, head)
	local S = Gate.stand(gate, l.task)
	Stand.change(S, l, head, nil)
	Q.parked = Q.parked - 1
	l.gate = false
	call('HDEL', P .. 'Y', l.id)
	if call('EXISTS', P .. S .. 'v') == 0 then
		call('SREM', P .. 'y' .. gate, l.task)
		if call('EXISTS', P .. 'y' .. gate) == 0 then
			for _, set in ipairs({ 'F', 'X', 'FX' }) do call('SREM', P .. set, gate) end
			call('ZREM', P .. 'W', gate)
		end
	end
end

-- open lets a lane through, wherever it waits.
function Gate.open(l)
	local _, gate = Lane.stand(l)
	if gate and l.stood then
		Gate.leave(l, gate, l.stood)
		Stand.change('o' .. l.task, l, nil, l.stood)
	end
end

-- free notes that a gate may have room.
function Gate.free(gate)
	if Q.parked == 0 then return end
	local tasks = call('SMEMBERS', P .. 'y' .. gate)
	if #tasks == 0 then return end
	call('SADD', P .. 'F', gate)
	for _, task in ipairs(tasks) do Wake.ready(task, 1) end
end

-- binds reports whether a gate is one for a task. Since limits change, lanes may
-- wait at one that is not any more.
function Gate.binds(gate, task)
	if string.sub(gate, 1, 1) == 'G' then return true end
	for _, r in ipairs(Gate.of(task)) do
		if string.sub(gate, 2, #r.name + 2) == r.name .. '\0' then return true end
	end
	return false
end

-- shut notes that a gate has no room, and until when if it is a rate. It has to be
-- looked at all the same as long as lanes wait there that it does not bind.
function Gate.shut(gate, until_)
	Gate.wake(gate, until_)
	for _, task in ipairs(call('SMEMBERS', P .. 'y' .. gate)) do
		if not Gate.binds(gate, task) then return end
	end
	call('SREM', P .. 'F', gate)
end

function Gate.wake(gate, until_)
	if until_ then
		call('ZADD', P .. 'W', until_, gate)
		if until_ < Q.wake then Q.wake = until_ end
	end
end

-- look lets claims look at all gates again, whatever they refused before: the
-- limits have changed.
function Gate.look()
	if Q.parked == 0 then return end
	call('DEL', P .. 'W')
	Q.wake = NEVER
	if call('EXISTS', P .. 'FX') == 1 then
		call('SUNIONSTORE', P .. 'FX', P .. 'FX', P .. 'X')
	else
		call('RENAME', P .. 'X', P .. 'FX')
	end
end

-- free_some frees at most n of the gates that have to be looked at.
local function free_some(n)
	for _, gate in ipairs(call('SPOP', P .. 'FX', n)) do
		call('SADD', P .. 'X', gate)
		if call('EXISTS', P .. 'y' .. gate) == 1 then call('SADD', P .. 'F', gate) end
	end
end

-- some returns gates that may have room, at most n.
function Gate.some(n)
	local gates = call('SRANDMEMBER', P .. 'F', n)
	if #gates < n and call('EXISTS', P .. 'FX') == 1 then
		free_some(n - #gates)
		gates = call('SRANDMEMBER', P .. 'F', n)
	end
	return gates
end

-- rouse frees the gates of rates that allow a claim by now.
function Gate.rouse()
	if Q.wake > Q.now then return end
	for _, gate in ipairs(call('ZRANGEBYSCORE', P .. 'W', '-inf', Q.now, 'LIMIT', 0, 200)) do
		call('ZREM', P .. 'W', gate)
		if call('EXISTS', P .. 'y' .. gate) == 1 then call('SADD', P .. 'F', gate) end
	end
	Q.wake = top(P .. 'W') or NEVER
end

-- recount counts the running jobs of all limits again.
function Gate.recount()
	if not Gate.rules then Gate.load() end
	for _, r in ipairs(Gate.all) do
		if r.running > 0 then call('DEL', P .. 'm' .. r.name) end
	end
	Gate.meters = {}
	for _, id in ipairs(call('ZRANGE', P .. 'e', 0, -1)) do
		local j = Job.load(id)
		if j and j.state == LEASED then Gate.counted(j, 1) end
	end
end

function Gate.flush()
	for _, m in pairs(Gate.meters) do
		if m.dirty then
			local r = m.r
			if r.running > 0 then
				Buf.hset(P .. 'm' .. r.name, m.value, m.n > 0 and pack('>I4', m.n))
			else
				Buf.hset(P .. 'm' .. r.name, m.value, pack('>I8I8I8I8', m.us, m.sub, m.rated, r.count))
			end
			m.dirty = false
		end
	end
end
