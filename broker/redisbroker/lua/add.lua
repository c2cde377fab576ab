-- add: how jobs come into a queue, by an enqueue, a tick or a follow-up.

local Add = {}

-- read unpacks a job as Go packs it; see pack.go.
function Add.read(s, i)
	local n = {}
	n.id, n.new, n.prio, n.when, n.at, n.most, n.ordered, n.hold, n.repeats, n.keyfor, n.batch, n.ordinal, n.members, n.bytes,
	n.start, n.task, n.tenant, n.group, n.key, n.digest, n.ext, n.body, i =
		unpack_('>c16BI4BI8I4BBBI8c16I4I4I4I8I2c0I2c0I2c0I2c0c16I2c0I4c0', s, i)
	return n, i
end

-- list unpacks n jobs.
function Add.list(s, i, count)
	local jobs = {}
	for k = 1, count do jobs[k], i = Add.read(s, i) end
	return jobs, i
end

-- payload is what a body has behind its timeout and headers.
local function payload(body)
	if string.byte(body) == 0 then return string.sub(body, 2) end
	local hlen = unpack_('>I4', body, 14)
	return string.sub(body, 18 + hlen)
end

-- due decides when a job runs: its time, and whether that is to come, and by
-- which clock.
function Add.due(n)
	if n.members > 0 then return 0, true, false end
	if n.when == 1 and n.at > 0 then return Q.now + n.at, true, false end
	if n.when == 2 and n.at > Q.wall then return n.at, true, true end
	return Q.now, false, false
end

-- known returns the job of an id, whole, or nil.
local function known(id) return Job.whole(id) end

-- one adds a job. It returns how (0 added, 1 there already, 2 there with another
-- payload) and the id.
function Add.one(n)
	local task = Task.make(n.task)
	if n.new == 0 then
		local j = known(n.id)
		if j then return Add.differs(string.sub(j.rec, j.body + j.xlen + 1), n.body), n.id end
	end
	if n.key ~= '' then
		local id, digest, until_ = Key.holder(task, n.key)
		if id then
			if n.repeats > 0 then Add.replace(id, n, task, until_) end
			return digest == n.digest and 1 or 2, id
		end
	end
	local j = {
		id = n.id, state = 0, reason = 0, ended = 0, flags = 0, task = task, prio = n.prio, eseq = 0, enqueued = Q.now,
		changed = 0, claimed = 0, expires = 0, token = 0, attempts = 0, most = n.most, failures = 0, tlen = #n.tenant,
		glen = #n.group, xlen = #n.ext, bytes = n.bytes, tenant = n.tenant, group = n.group, body = Job.size + #n.tenant + #n.group,
	}
	local later, wall
	j.runat, later, wall = Add.due(n)
	j.pseq = Q.next()
	if n.ordered == 1 then j.flags = ORDERED end
	if wall then j.flags = j.flags + WALL end
	if #n.tenant == 256 then j.flags = j.flags + T256 end
	if #n.group == 256 then j.flags = j.flags + G256 end
	if #n.ext == 0 then j.x = NOEXT else j.rec = string.rep(' ', Job.size) .. n.tenant .. n.group .. n.ext end
	local key = Job.key(n.id)
	if Buf.gone[key] then Buf.drop() end
	if n.members > 0 then
		j.flags, j.reason = bor(j.flags, WAITS), R_batch
		Life.enter(j, SCHEDULED, Q.now, j.pseq)
	else
		Life.wait(j, later, true)
	end
	call('SET', key, Job.header(j) .. n.tenant .. n.group .. n.ext .. n.body)
	if n.key ~= '' then Key.hold(task, n.key, n.id, n.digest, n.hold == 2 and Q.now + n.keyfor or 0) end
	local c = Count.task(task)
	c[ENQUEUED] = c[ENQUEUED] + 1
	Wake.tell(j)
	return 0, n.id
end

-- differs compares two bodies by their payloads.
function Add.differs(a, b) return payload(a) == payload(b) and 1 or 2 end

-- replace lets a repeat of a key change the job that holds it, as far as that
-- still waits.
function Add.replace(id, n, task, until_)
	local j = Job.whole(id)
	if not j or j.state > READY then return end
	local x = Job.ext(j)
	if x.key ~= n.key or j.task ~= task then return end
	local held = Key.holder(task, n.key)
	Load.carry(j.tenant, j.bytes, -1)
	if j.state == READY then Load.idle(j.tenant, j.bytes, -1) end
	j.bytes = n.bytes
	Load.carry(j.tenant, j.bytes, 1)
	if j.state == READY then Load.idle(j.tenant, j.bytes, 1) end
	-- The digest stands behind mask, hold and keyfor.
	local at = j.body + 10
	local rec = string.sub(j.rec, 1, at) .. n.digest .. string.sub(j.rec, at + 17, j.body + j.xlen) .. n.body
	j.rec, j.x, j.reason = rec, nil, R_replaced
	if held == id then call('HSET', P .. 'K', task .. n.key, id .. n.digest .. pack('>I8', until_)) end
	call('SET', Job.key(id), rec)
	if n.repeats == 2 and not Job.is(j, WAITS) then
		Life.leave(j)
		local later, wall
		j.runat, later, wall = Add.due(n)
		j.pseq = Q.next()
		Job.mark(j, WALL, wall)
		Life.wait(j, later, true)
	end
	Job.save(j)
	Wake.tell(j)
end

-- members refuses a call that makes a batch with a job that would not be added, or
-- would change one that has left by a move.
function Add.members(jobs)
	for k, n in ipairs(jobs) do
		if n.batch ~= Calls.none and Job.load(n.id) and not Job.load(n.batch) then
			return INVALID .. str('member ' .. k .. ' of a new batch is there already')
		end
	end
	if Q.is(RESTS) then return Move.refuses(jobs) end
end
