-- life: how a job goes from state to state. Each function changes the record
-- and every index of it. Sorted sets: L and the state, jobs in the order in which
-- they entered it (of the ready ones those alone that do not stand in a plain lane
-- in that order); d0 and d1, due times on the steady and on the wall clock; e,
-- leases by expiry; s0 and s1, deadlines of starts; k, ends of retentions.
-- Hash w: leased job to its worker.

local Life = {}

local function list(state, seq, id) return P .. 'L' .. state, pack('>I6', seq) .. id end

-- listed adds j to the list of its state.
function Life.listed(j)
	local apart = j.state ~= READY or not (j.prio == PLAIN and j.tenant == '' and j.group == '' and not Job.is(j, ORDERED)
		and j.changed == j.runat and j.eseq == j.pseq)
	Job.mark(j, APART, apart and j.state == READY)
	if apart then
		local key, m = list(j.state, j.eseq, j.id)
		Buf.zset(key, m, j.changed)
	end
end

function Life.unlisted(j)
	if j.state ~= READY or Job.is(j, APART) then
		local key, m = list(j.state, j.eseq, j.id)
		Buf.zset(key, m, false)
	end
end

-- enter moves a job to a state at a time; seq numbers the entry.
function Life.enter(j, to, at, seq)
	local c = Count.task(j.task)
	local was = j.state
	if was ~= 0 then
		Life.unlisted(j)
		c[was] = c[was] - 1
	end
	if (was ~= 0 and was <= LEASED) ~= (to <= LEASED) then Load.carry(j.tenant, j.bytes, to <= LEASED and 1 or -1) end
	if (was == READY) ~= (to == READY) then Load.idle(j.tenant, j.bytes, to == READY and 1 or -1) end
	j.state, j.changed, j.eseq = to, at, seq
	Job.mark(j, DUE, false)
	c[to] = c[to] + 1
	Life.listed(j)
end

-- leave takes a job out of what its present state has it in, but for its list.
function Life.leave(j)
	if j.state == SCHEDULED then
		if not Job.is(j, WAITS) then Buf.zset(P .. (Job.is(j, WALL) and 'd1' or 'd0'), pack('>I6', j.pseq) .. j.id, false) end
	elseif j.state == READY then
		Lane.del(Lane.get(Lane.name(j)), j.runat, j.pseq, j.id)
		if Job.ext(j).start then Buf.zset(P .. (Job.is(j, WALL) and 's1' or 's0'), j.id, false) end
	elseif j.state == LEASED then
		Buf.zset(P .. 'e', j.id, false)
		Buf.hset(P .. 'w', j.id, false)
		if Q.is(LIMITS) then Gate.counted(j, -1) end
		j.expires = 0
	elseif Job.is(j, KEPT) then
		Buf.zset(P .. 'k', j.id, false)
		Job.mark(j, KEPT, false)
	end
end

-- stand puts a ready job into its lane.
function Life.stand(j)
	local l = Lane.get(Lane.name(j))
	Lane.add(l, j.runat, j.pseq, j.id)
	if l.ordered and Gate.holder(l.value) == j.id then
		Lane.settle(l)
		Gate.open(l) -- what the group kept back, its holder may take
	end
	local x = Job.ext(j)
	if x.start and j.attempts == 0 then
		local wall = Job.is(j, WALL)
		local at = j.runat + x.start
		Buf.zset(P .. (wall and 's1' or 's0'), j.id, at)
		if wall then Q.start1 = min(Q.start1, at) else Q.start0 = min(Q.start0, at) end
	end
	Wake.ready(j.task, 1)
end

-- wait puts a job among the scheduled (later) or the ready. fresh says that its
-- place is a new one, whose number numbers the entry, too.
function Life.wait(j, later, fresh)
	local seq = fresh and j.pseq or Q.next()
	if not later then
		Life.enter(j, READY, Q.now, seq)
		Life.stand(j)
		return
	end
	Life.enter(j, SCHEDULED, Q.now, seq)
	local key, bound, now = 'd0', 'due0', Q.now
	if Job.is(j, WALL) then key, bound = 'd1', 'due1' end
	Buf.zset(P .. key, pack('>I6', j.pseq) .. j.id, j.runat)
	if j.runat < Q[bound] then
		Q[bound] = j.runat
		Wake.ready(j.task, 1) -- to look earlier than he means to
	end
end

-- promote makes ready at most n due jobs, those first that were due first.
function Life.promote(n)
	local since = Q.last
	Buf.one(P .. 'd0')
	Buf.one(P .. 'd1')
	local a = call('ZRANGEBYSCORE', P .. 'd0', '-inf', Q.now, 'WITHSCORES', 'LIMIT', 0, n)
	local b = call('ZRANGEBYSCORE', P .. 'd1', '-inf', Q.wall, 'WITHSCORES', 'LIMIT', 0, n)
	local i, k = 1, 1
	while n > 0 and (a[i] or b[k]) do
		local m, at, key
		local x = a[i] and Q.now - tonumber(a[i + 1])
		local y = b[k] and Q.wall - tonumber(b[k + 1])
		if x and (not y or x > y or x == y and less(a[i], b[k])) then
			m, at, key, i = a[i], Q.now - x, 'd0', i + 2
		else
			m, at, key, k = b[k], Q.now - y, 'd1', k + 2
		end
		n = n - 1
		Buf.zset(P .. key, m, false)
		local j = Job.load(string.sub(m, 7))
		if j and j.state == SCHEDULED and not Job.is(j, WAITS) then
			at = max(at, since)
			Life.enter(j, READY, at, at == j.runat and j.pseq or Q.next())
			Job.mark(j, DUE, true)
			Life.stand(j)
			Job.save(j)
			Wake.tell(j)
		end
	end
	Q.due0, Q.due1 = Life.bound('d0'), Life.bound('d1')
	return n == 0
end

-- bound is the least score of a sorted set, NEVER when it is empty.
function Life.bound(name)
	Buf.one(P .. name)
	return top(P .. name) or NEVER
end

-- retention is how long a task's jobs are kept that end in a state, 0 for the
-- default.
function Life.retention(task, state)
	if not Q.is(RETAINS) then return 0 end
	local s = call('HGET', P .. 'N', Task.named(task)) or call('HGET', P .. 'N', '')
	if not s then return 0 end
	local done, dead, cancelled = unpack_('>ddd', s)
	if state == DONE then return done elseif state == DEAD then return dead end
	return cancelled
end

-- kept is until when a job is kept that ends now in a state: nil for not at all,
-- 0 for ever.
function Life.kept(j, state, result)
	local retain = Job.ext(j).retain
	local want = 0
	if not retain then want = Life.retention(j.task, state) elseif state ~= DEAD then want = retain end
	if want < 0 then return nil end
	if want == 0 then
		if state == DEAD then return 0 end
		if state == DONE and not result then return nil end
		want = 3600000000
	end
	return Q.now + want
end

local TOTAL = { [DONE] = ACKED, [DEAD] = DIED, [CANCELLED] = CANCELS }

-- final ends a job. r: kind of the settlement, failures, err (nil: unchanged),
-- result, expired (its lease ended without a settlement).
function Life.final(j, state, reason, r)
	local c = Count.task(j.task)
	c[TOTAL[state]] = c[TOTAL[state]] + 1
	if r.expired then c[EXPIRED] = c[EXPIRED] + 1 end
	if r.failures and r.failures > j.failures then
		c[FAILED] = c[FAILED] + 1
		j.failures = r.failures
	end
	local worker = j.state == LEASED and Job.worker(j) or ''
	local kept = Life.kept(j, state, r.result)
	Life.leave(j)
	Job.mark(j, WAITS, false)
	Job.mark(j, ASKED, false)
	j.reason = reason
	if r.kind then j.ended = r.kind end
	if kept then Life.enter(j, state, Q.now, Q.next()) end
	Key.free(j)
	Life.letgo(j)
	Life.signal(j)
	if not kept then
		Life.remove(j, true)
		j.state = state
		Wake.tell(j, worker)
		Wake.final(j.id)
		return
	end
	if worker ~= '' then Job.set(j, 'w', worker) end
	if r.err then Job.set(j, 'e', r.err ~= '' and r.err) end
	if r.result then
		Job.set(j, 'r', r.result)
		Job.mark(j, RESULT, true)
	end
	if kept > 0 then
		Buf.zset(P .. 'k', j.id, kept)
		Job.mark(j, KEPT, true)
		Q.keep = min(Q.keep, kept)
	end
	Job.save(j)
	Wake.tell(j, worker)
	Wake.final(j.id)
end

-- letgo frees the ordered group that a job holds.
function Life.letgo(j)
	if not Job.is(j, ORDERED) then return end
	local group = j.group ~= '' and j.group or j.tenant
	if Gate.holder(group) ~= j.id then return end
	Gate.hold(group, false)
	Gate.free('G' .. group)
	Wake.ready(j.task, 1)
end

-- remove forgets a job; left says that it stands nowhere any more but in its
-- list and in the counts.
function Life.remove(j, left)
	if not left then
		Life.leave(j)
		Key.free(j)
		Life.letgo(j)
		Life.signal(j)
	end
	Life.unlisted(j)
	local c = Count.task(j.task)
	c[j.state] = c[j.state] - 1
	if j.state <= LEASED then Load.carry(j.tenant, j.bytes, -1) end
	if j.state == READY then Load.idle(j.tenant, j.bytes, -1) end
	Buf.del(Job.key(j.id))
	if Job.is(j, EXTRA) then Buf.del(P .. 'x' .. j.id) end
end

-- again lets a job wait once more. r: kind, attempts, failures, err (nil:
-- unchanged), expired, delay (nil: at its old place).
function Life.again(j, reason, r)
	local worker = j.state == LEASED and Job.worker(j) or ''
	local c = Count.task(j.task)
	if r.expired then c[EXPIRED] = c[EXPIRED] + 1 end
	if r.failures and r.failures > j.failures then
		c[FAILED] = c[FAILED] + 1
		j.failures = r.failures
	end
	Life.leave(j)
	Job.mark(j, WAITS, false)
	Job.mark(j, ASKED, false)
	j.reason, j.ended = reason, r.kind or 0
	if r.attempts then j.attempts = r.attempts end
	if r.delay then
		j.runat, j.pseq = Q.now + r.delay, Q.next()
		Job.mark(j, WALL, false)
	end
	if reason == R_requeued then
		Key.retake(j)
		if Job.is(j, RESULT) then Job.set(j, 'r', false) end
		Job.mark(j, RESULT, false)
	end
	if worker ~= '' then Job.set(j, 'w', worker) end
	if r.err then Job.set(j, 'e', r.err ~= '' and r.err) end
	Life.wait(j, r.delay and r.delay > 0, r.delay)
	Job.save(j)
	Wake.tell(j, worker)
end

-- expire ends a lease without a settlement.
function Life.expire(j, why)
	if Job.is(j, ASKED) then
		Life.final(j, CANCELLED, R_cancelled, { expired = true })
	elseif j.attempts >= j.most then
		Life.final(j, DEAD, R_crashed, { expired = true })
	else
		Life.again(j, why, { expired = true })
	end
end

-- expired ends at most n leases that are over.
function Life.expired(n)
	Buf.one(P .. 'e')
	local ids, jobs = call('ZRANGEBYSCORE', P .. 'e', '-inf', Q.now, 'LIMIT', 0, n), {}
	for _, id in ipairs(ids) do
		local j = Job.load(id)
		if j and j.state == LEASED then jobs[#jobs + 1] = j else Buf.zset(P .. 'e', id, false) end
	end
	table.sort(jobs, function(x, y) -- those that end together as they were claimed
		if x.expires ~= y.expires then return x.expires < y.expires end
		return x.eseq < y.eseq
	end)
	for _, old in ipairs(jobs) do
		local j = Job.load(old.id)
		if j and j.state == LEASED then Life.expire(j, R_expired) end
	end
	Q.lease = Life.bound('e')
	return #ids == n
end

-- late reports whether a job was not started in time.
function Life.late(j)
	local start = Job.ext(j).start
	return start and j.attempts == 0 and j.runat + start <= (Job.is(j, WALL) and Q.wall or Q.now)
end

-- signal counts the first end of a batch's member.
function Life.signal(j)
	local x = Job.ext(j)
	if not x.batch or Job.is(j, SIGNALLED) then return end
	Job.mark(j, SIGNALLED, true)
	Life.ended(x.batch, x.ordinal)
end

-- ended lets a completion job know that a member of its batch is final.
function Life.ended(batch, ordinal)
	local c = Job.load(batch)
	if not c and Q.is(RESTS) then Move.missed(batch, ordinal) end
	if not c or not Job.is(c, WAITS) or ordinal >= (Job.ext(c).size or 0) then return end
	local seen = Job.get(c, 'b') or string.rep('\0', math.ceil(Job.ext(c).size / 8))
	local at = floor(ordinal / 8)
	local bits, mask = string.byte(seen, at + 1), 2 ^ (ordinal % 8)
	if band(bits, mask) ~= 0 then return end
	local left = tonumber(Job.get(c, 'n') or Job.ext(c).size) - 1
	if left == 0 then
		Life.complete(c)
		return
	end
	local had = Job.is(c, EXTRA)
	Job.set(c, 'b', string.sub(seen, 1, at) .. string.char(bits + mask) .. string.sub(seen, at + 2))
	Job.set(c, 'n', left)
	if not had then Job.save(c) end
end

-- complete makes a completion job ready.
function Life.complete(c)
	Job.set(c, 'b', false)
	Job.set(c, 'n', false)
	Life.again(c, R_batch, { delay = 0 })
end
