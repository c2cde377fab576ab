-- put adds a part of a batch that another broker's take has given out. The parts of a
-- batch follow each other; the last one says that it has arrived.
-- Call: call id, move, number of the batch, how many of its jobs, keys and signals came
-- before, flags (1: it is the last part, 2: the queue is paused), jobs, keys and signals,
-- each behind their number. A job: id, task, whether it holds its key, until when, whether
-- it holds its ordered group, end of its retention, record (task, second place and the
-- marks that tell where it stands are for this script), fields of x: name and value.
-- Answer: status (conflict: the record says no), how many of the batch are here now,
-- jobs that were known, jobs that ended as duplicates.

local ALL = 4294967295
local LAST, PAUSE = 1, 2

local function read(arg, i)
	local n, fields = {}, 0
	n.id, n.task, n.held, n.until_, n.group, n.keep, n.rec, fields, i = unpack_('>c16I2c0BI8BI8I4c0I2', arg, i)
	n.x = {}
	for _ = 1, fields do
		local name, value
		name, value, i = unpack_('>c1I4c0', arg, i)
		n.x[#n.x + 1] = name
		n.x[#n.x + 1] = value
	end
	return n, i
end

-- text is a job's id as people read it.
local function text(id)
	local s = ''
	for k = 1, 16 do
		if k == 5 or k == 7 or k == 9 or k == 11 then s = s .. '-' end
		s = s .. string.format('%02x', string.byte(id, k))
	end
	return s
end

-- take_key lets a job hold its key, unless another one does, which it returns.
local function take_key(j, n, final)
	local x = Job.ext(j)
	if not x.key or n.held == 0 or final and x.hold ~= 2 then return nil end
	local id = Key.holder(j.task, x.key)
	if id and id ~= j.id then return id end
	Move.back(j.task, x.key, j.id, x.digest, n.until_)
end

-- stands puts a job where its state has it: entered then.
local function stands(j, state, changed, keep)
	if Job.is(j, WAITS) then
		Life.enter(j, SCHEDULED, changed, Q.next())
	elseif state == SCHEDULED and j.runat > (Job.is(j, WALL) and Q.wall or Q.now) then
		Life.enter(j, SCHEDULED, changed, Q.next())
		local wall = Job.is(j, WALL)
		Buf.zset(P .. (wall and 'd1' or 'd0'), pack('>I6', j.pseq) .. j.id, j.runat)
		if wall then Q.due1 = min(Q.due1, j.runat) else Q.due0 = min(Q.due0, j.runat) end
	elseif state <= READY then
		local due = state == SCHEDULED
		if due then changed = j.runat end
		Life.enter(j, READY, changed, changed == j.runat and j.pseq or Q.next())
		Job.mark(j, DUE, due)
		Life.stand(j)
	else
		Life.enter(j, state, changed, Q.next())
		if keep > 0 then
			Buf.zset(P .. 'k', j.id, keep)
			Job.mark(j, KEPT, true)
			Q.keep = min(Q.keep, keep)
		end
	end
end

local ENDS = { [DONE] = ACKED, [DEAD] = DIED, [CANCELLED] = CANCELS }

-- arrive adds a job. It returns 1 when it was known, 2 when it ended as a duplicate.
local function arrive(n)
	if Job.load(n.id) then return 1 end
	local j = Job.parse(n.id, n.rec)
	j.all, j.task = true, Task.make(n.task)
	Q.seq = max(Q.seq, j.pseq) -- what comes later stands behind it
	local state, changed = j.state, j.changed
	j.state = 0
	local holder = take_key(j, n, state >= DONE)
	local group = j.group ~= '' and j.group or j.tenant
	if n.group == 1 and state < DONE and not Gate.holder(group) then Gate.hold(group, j.id) end
	stands(j, state, changed, n.keep)
	if #n.x > 0 then
		call('HSET', P .. 'x' .. j.id, unpack(n.x))
		Job.mark(j, EXTRA, true)
	end
	local c = Count.task(j.task)
	c[ENQUEUED] = c[ENQUEUED] + 1
	local key = Job.key(j.id)
	if Buf.gone[key] then Buf.drop() end
	j.rec = Job.header(j) .. string.sub(n.rec, Job.size + 1)
	call('SET', key, j.rec)
	if state >= DONE then
		c[ENDS[state]] = c[ENDS[state]] + 1
		if state == DONE then c[CLAIMED] = c[CLAIMED] + 1 end
		Life.signal(j)
		Job.save(j)
	end
	Wake.tell(j)
	if Job.is(j, WAITS) then
		if tonumber(Job.get(j, 'n') or Job.ext(j).size) == 0 then Life.complete(j) else Move.gather(j) end
	end
	if not holder or state > READY or j.token ~= 0 then return 0 end
	Life.final(j, CANCELLED, R_duplicate, { err = 'job ' .. text(holder) .. ' holds its key' })
	return 2
end

-- put_key lets a key be held whose job is gone, unless another one holds it.
local function put_key(arg, i)
	local task, key, id, digest, until_
	task, key, id, digest, until_, i = unpack_('>I2c0I2c0c16c16I8', arg, i)
	task = Task.make(task)
	local is = call('HGET', P .. 'K', task .. key)
	local at = is and unpack_('>I8', is, 33)
	if until_ > Q.now and not (at and (at == 0 or at > Q.now)) then Move.back(task, key, id, digest, until_) end
	return i
end

local function put(arg)
	local id, move, number, from, flags, n, i = unpack_('>c16c16I8I4BI4', arg)
	local was = Calls.get(id)
	if was then return was end
	local m = Move.read()
	if not m or m.id ~= move or m.state < ARRIVING then return CONFLICT end
	if number <= m.batch then return OK .. pack('>I4I4I4', ALL, 0, 0) end
	if number ~= m.batch + 1 or m.state ~= ARRIVING then return CONFLICT end
	if from ~= m.put then return OK .. pack('>I4I4I4', m.put, 0, 0) end
	Q.promote(200)
	local how = { [0] = 0, [1] = 0, [2] = 0 }
	local keys, signals, batch, ordinal
	for _ = 1, n do
		local job
		job, i = read(arg, i)
		local was_there = arrive(job)
		how[was_there] = how[was_there] + 1
	end
	keys, i = unpack_('>I4', arg, i)
	for _ = 1, keys do i = put_key(arg, i) end
	signals, i = unpack_('>I4', arg, i)
	for _ = 1, signals do
		batch, ordinal, i = unpack_('>c16I4', arg, i)
		Life.ended(batch, ordinal)
	end
	local here = from + n + keys + signals
	local fields = { put = here, jobs = m.jobs + how[0] + how[2] }
	if band(flags, PAUSE) ~= 0 then Q.mark(PAUSED, true) end
	if band(flags, LAST) ~= 0 then
		here = ALL
		fields.put, fields.batch = 0, number
	end
	Move.write(m, fields)
	local answer = OK .. pack('>I4I4I4', here, how[1], how[2])
	Calls.keep(id, answer)
	return answer
end

return run(put)
