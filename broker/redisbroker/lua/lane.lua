-- lane: the ready jobs of one task, priority, tenant and group, a sorted set by
-- place (l and the lane's id). Its jobs are claimable or blocked together: while
-- it has any it stands among the open lanes of its task, or where a gate has
-- parked it (hash Y: lane to gate). Sorted sets h and priority: all lanes by head.

local Lane = { of = {}, todo = {}, prios = {}, left = {} }

-- id names a lane: task, priority, whether it is ordered, tenant and group.
function Lane.name(j)
	return j.task .. pack('>I4BI2', j.prio, Job.is(j, ORDERED) and 1 or 0, #j.tenant) .. j.tenant .. j.group
end

-- get returns the lane of an id, as this script knows it.
function Lane.get(id)
	local l = Lane.of[id]
	if l then return l end
	local task, prio, ordered, tlen = unpack_('>c3I4BI2', id)
	l = { id = id, key = P .. 'l' .. id, task = task, pb = string.sub(id, 4, 7), prio = prio, ordered = ordered == 1 }
	l.tenant, l.group = string.sub(id, 11, 10 + tlen), string.sub(id, 11 + tlen)
	l.plain = prio == PLAIN and #id == 10 and not l.ordered
	l.value = l.group ~= '' and l.group or l.tenant -- of its ordered group
	Lane.read(l)
	l.stood = l.head
	Lane.of[id] = l
	return l
end

-- read finds the head: where the first of its jobs stands.
function Lane.read(l)
	local at, m = top(l.key)
	l.head = at and { at = at, sq = string.sub(m, 1, 6), id = string.sub(m, 7) }
end

-- touch notes that the jobs of a lane change.
function Lane.touch(l)
	if l.dirty then return end
	l.dirty = true
	Lane.todo[#Lane.todo + 1] = l
end

function Lane.add(l, at, seq, id)
	local sq = pack('>I6', seq)
	Buf.zset(l.key, sq .. id, at)
	local h = l.head
	if not h or at < h.at or at == h.at and less(sq, h.sq) then l.head = { at = at, sq = sq, id = id } end
	Lane.touch(l)
end

function Lane.del(l, at, seq, id)
	local sq = pack('>I6', seq)
	Buf.zset(l.key, sq .. id, false)
	if l.head and l.head.sq == sq then l.stale = true end
	Lane.touch(l)
end

-- stand returns where a lane that has a head stands.
function Lane.stand(l)
	if Q.parked == 0 then return 'o' .. l.task, nil end
	if l.gate == nil then l.gate = call('HGET', P .. 'Y', l.id) end
	if l.gate then return Gate.stand(l.gate, l.task), l.gate end
	return 'o' .. l.task, nil
end

-- busy reports whether any lane of a priority has jobs.
function Lane.busy(pb)
	Buf.one(P .. 'h' .. pb)
	return call('EXISTS', P .. 'h' .. pb) == 1
end

-- settle puts a lane right whose jobs changed.
function Lane.settle(l)
	if l.dirty then
		Buf.one(l.key)
		if l.stale then Lane.read(l) end
		l.dirty, l.stale = false, false
	end
	local old, new = l.stood, l.head
	if old == new or old and new and old.sq == new.sq and old.at == new.at then return end
	l.stood = new
	local hk = P .. 'h' .. l.pb
	local heads = Buf.set(hk)
	if old then heads[old.sq .. l.id] = false end
	if new then
		heads[new.sq .. l.id] = new.at
		if not old and not Lane.prios[l.pb] then
			Lane.prios[l.pb] = true
			call('ZADD', P .. 'r', 2147483648 - l.prio, l.pb)
		end
	else
		Lane.left[l.pb] = true
	end
	local S, gate = Lane.stand(l)
	if gate and not new then
		Gate.leave(l, gate, old)
	elseif gate and not old then
		Stand.prove(S, l, new) -- its jobs were lost, and are found again
	elseif gate and (new.at < old.at or new.at == old.at and less(new.sq, old.sq)) then
		Gate.leave(l, gate, old) -- it may go before what was let through
		Stand.change('o' .. l.task, l, nil, new)
	else
		Stand.change(S, l, old, new)
	end
end

-- flush puts all lanes right. A claim does it before it looks.
function Lane.flush()
	local todo = Lane.todo
	if #todo > 0 then Lane.todo = {} end
	for _, l in ipairs(todo) do Lane.settle(l) end
	for pb in pairs(Lane.left) do
		Lane.left[pb] = nil
		if not Lane.busy(pb) then
			Lane.prios[pb] = nil
			call('ZREM', P .. 'r', pb)
		end
	end
end

-- first returns the id of the job that is claimed first of a lane: the one that
-- holds its ordered group, if that waits here, else its head.
function Lane.first(l)
	if l.ordered then
		local holder = Gate.holder(l.value)
		if holder and holder ~= l.head.id then
			local j = Job.load(holder)
			if j and j.state == READY and Lane.name(j) == l.id then return holder end
		end
	end
	return l.head.id
end

-- strip removes what stands in a lane for a job that is not ready: it was met at the
-- head, and stands near it.
function Lane.strip(l, id)
	local from, list = 0, nil
	repeat
		list = call('ZRANGE', l.key, from, from + 63)
		from = from + 64
		for _, m in ipairs(list) do
			if string.sub(m, 7) == id then
				call('ZREM', l.key, m)
				list = NONE
				break
			end
		end
	until #list == 0
	Lane.touch(l)
	l.stale = true
end
