-- moved: what a queue knows of its move to or from another broker. Hash M: the
-- record of it, on which Go decides (see move.go). String O!: the batch that was
-- taken last, until it has arrived. Hash K!: the keys of jobs that have left, as K has
-- them: they are answered here until the move ends. Sorted set B!: batch and ordinal of
-- members that are final and whose completion job is not here.

local Move = {}

local NUMBERS = { 'state', 'batch', 'jobs', 'settled', 'until', 'delta', 'shift', 'fresh', 'put', 'rev' }

-- read returns the record, nil for none.
function Move.read()
	if not Q.is(MOVES) then return nil end
	local m, all = {}, call('HGETALL', P .. 'M')
	for i = 1, #all, 2 do m[all[i]] = all[i + 1] end
	for _, name in ipairs(NUMBERS) do m[name] = tonumber(m[name] or 0) end
	return m
end

-- write changes fields of the record.
function Move.write(m, fields)
	local args = { 'rev', m.rev + 1 }
	for name, value in pairs(fields) do
		args[#args + 1] = name
		if type(value) == 'number' then value = string.format('%.0f', value) end
		args[#args + 1] = value
	end
	call('HSET', P .. 'M', unpack(args))
end

-- rest notes whether the queue has a record, and rests.
function Move.rest(state)
	Q.mark(MOVES, state ~= 0)
	Q.mark(RESTS, state >= 1 and state <= 3)
	Q.version = Q.is(RESTS) and RESTING or VERSION
end

-- holder is Key.holder for the keys of jobs that have left.
function Move.holder(task, key)
	local s = call('HGET', P .. 'K!', task .. key)
	if not s then return nil end
	local id, digest, until_ = unpack_('>c16c16I8', s)
	if until_ ~= 0 and until_ <= Q.now then return nil end
	return id, digest, until_
end

-- away moves a key among those whose jobs have left.
function Move.away(task, key, id, digest, until_)
	call('HDEL', P .. 'K', task .. key)
	call('ZREM', P .. 'U', task .. key)
	call('HSET', P .. 'K!', task .. key, id .. digest .. pack('>I8', until_))
end

-- back lets a key be held here.
function Move.back(task, key, id, digest, until_)
	call('HDEL', P .. 'K!', task .. key)
	Key.hold(task, key, id, digest, until_)
end

-- refuses turns a call away that would change a job which has left.
function Move.refuses(jobs)
	for k, n in ipairs(jobs) do
		if n.key ~= '' and n.repeats > 0 then
			local task = Task.find(n.task)
			if task then
				local id, _, until_ = Move.holder(task, n.key)
				if id and until_ == 0 and not call('HGET', P .. 'K', task .. n.key) then
					local m = Move.read()
					return AWAY .. pack('>BI4', m.state, k) .. id .. str(m.peer)
				end
			end
		end
	end
end

-- missed notes that a member is final whose completion job is at the other side, or
-- on its way.
function Move.missed(batch, ordinal)
	local state = tonumber(call('HGET', P .. 'M', 'state') or 0)
	if state == LEAVING or state == ARRIVING then call('ZADD', P .. 'B!', 0, batch .. pack('>I4', ordinal)) end
end

-- gather gives a completion job the ends of members that came before it.
function Move.gather(c)
	local from = '[' .. c.id
	local ends = call('ZRANGEBYLEX', P .. 'B!', from, from .. '\255\255\255\255')
	for _, e in ipairs(ends) do
		call('ZREM', P .. 'B!', e)
		Life.ended(c.id, (unpack_('>I4', e, 17)))
	end
end

-- works tells of what a queue gives out that rested.
function Move.works()
	Wake.everyone()
	for _, name in ipairs(call('HKEYS', P .. 'C')) do
		call('PUBLISH', EVENTS, 's' .. str(P) .. str('schedule') .. str(name) .. pack('>I8', Q.now))
	end
end

-- prove proves what belongs to a record by the record. It returns how many were wrong.
function Move.prove()
	local wrong, state = 0, tonumber(call('HGET', P .. 'M', 'state') or 0)
	local rests = state >= 1 and state <= 3
	if Q.is(MOVES) ~= (state ~= 0) or Q.is(RESTS) ~= rests then
		Move.rest(state)
		wrong = 1
	end
	for name, is in pairs({ ['O!'] = state == LEAVING, ['K!'] = rests and state ~= LEFT, ['B!'] = rests and state ~= LEFT }) do
		if not is then wrong = wrong + call('UNLINK', P .. name) end
	end
	return wrong
end

-- met proves a part of the ends that wait for their completion jobs: none of these is
-- here. It returns where it goes on, how many it saw, and how many were wrong.
function Move.met(at)
	local r = call('ZSCAN', P .. 'B!', at, 'COUNT', 64)
	local wrong = 0
	for i = 1, #r[2], 2 do
		local batch, ordinal = unpack_('>c16I4', r[2][i])
		if Job.load(batch) then
			call('ZREM', P .. 'B!', r[2][i])
			Life.ended(batch, ordinal)
			wrong = wrong + 1
		end
	end
	Lane.flush()
	Buf.flush()
	return r[1], #r[2] / 2, wrong
end
