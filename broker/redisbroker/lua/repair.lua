-- repair: proves some entries of an index by the records, or some records by the
-- indexes, and puts right what does not fit. A record is what counts. Hash E: which
-- index is looked at, where, and when the last round was over.

local Repair = {}
local ROUND = 600000000 -- µs from the end of a round to the next

-- fixed notes what was put right: for tests, and for people.
local function fixed(what) call('HINCRBY', P .. 'E', 'fixed:' .. what, 1) end

-- scan returns a part of a sorted set or hash, and where it goes on.
local function scan(command, key, at)
	local r = call(command, key, at, 'COUNT', 64)
	return r[2], r[1]
end

-- within looks at a part of a sorted set: check says whether a member is right.
local function within(name, at, check)
	local key = P .. name
	local list, next = scan('ZSCAN', key, at)
	for i = 1, #list, 2 do
		if not check(list[i], tonumber(list[i + 1])) then
			call('ZREM', key, list[i])
			fixed(name)
		end
	end
	return next, #list / 2
end

-- fields looks at a part of a hash.
local function fields(name, at, check)
	local key = P .. name
	local list, next = scan('HSCAN', key, at)
	for i = 1, #list, 2 do
		if not check(list[i], list[i + 1]) then
			call('HDEL', key, list[i])
			fixed(name)
		end
	end
	return next, #list / 2
end

local function by_id(states)
	return function(id)
		local j = Job.load(id)
		return j and states(j)
	end
end

-- want adds what is missing in a sorted set.
local function want(name, member, score)
	local is = call('ZSCORE', P .. name, member)
	if is and tonumber(is) == score then return end
	call('ZADD', P .. name, score, member)
	fixed(name)
end

-- lane proves a lane: its head by the index of all lanes, and where it stands.
local function lane(l)
	local h = l.head
	if not h then return end
	local hk = 'h' .. l.pb
	Buf.one(P .. hk)
	want(hk, h.sq .. l.id, h.at)
	want('r', l.pb, 2147483648 - l.prio)
	local S = Lane.stand(l)
	if Stand.prove(S, l, h) then fixed('stand') end
end

-- held proves what a job that is not final holds: its ordered group, and the
-- deadline of its start. (Not its key: a requeued job may have lost that to another
-- for good.)
local function held(j)
	if j.state > LEASED then return end
	local x = Job.ext(j)
	local group = j.group ~= '' and j.group or j.tenant
	if j.state == LEASED and Job.is(j, ORDERED) and not Gate.holder(group) then
		Gate.hold(group, j.id)
		fixed('H')
	end
	if j.state == READY and x.start and j.attempts == 0 then
		local at = j.runat + x.start
		want(Job.is(j, WALL) and 's1' or 's0', j.id, at)
		if Job.is(j, WALL) then Q.start1 = min(Q.start1, at) else Q.start0 = min(Q.start0, at) end
	end
end

-- record proves a record: that every index has it.
local function record(id)
	local j = Job.load(id)
	if not j then return end
	if j.state ~= READY or Job.is(j, APART) then want('L' .. j.state, pack('>I6', j.eseq) .. id, j.changed) end
	if j.state == SCHEDULED and not Job.is(j, WAITS) then
		local wall = Job.is(j, WALL)
		want(wall and 'd1' or 'd0', pack('>I6', j.pseq) .. id, j.runat)
		if wall then Q.due1 = min(Q.due1, j.runat) else Q.due0 = min(Q.due0, j.runat) end
	elseif j.state == READY then
		local l = Lane.get(Lane.name(j))
		if not call('ZSCORE', l.key, pack('>I6', j.pseq) .. id) then
			Lane.add(l, j.runat, j.pseq, id)
			Lane.settle(l)
			fixed('l')
		end
		lane(l)
	elseif j.state == LEASED then
		want('e', id, j.expires)
		Q.lease = min(Q.lease, j.expires)
	elseif Job.is(j, KEPT) and not call('ZSCORE', P .. 'k', id) then
		local until_ = j.changed + max((Life.kept(j, j.state, Job.is(j, RESULT)) or Q.now) - Q.now, 0)
		want('k', id, until_)
		Q.keep = min(Q.keep, until_)
	end
	held(j)
end

-- The indexes, and what is right in each.
local steps = {
	function(at) -- all records of the server that are this queue's
		local r = call('SCAN', at, 'MATCH', string.gsub(P, '([%[%]?*\\])', '\\%1') .. 'j*', 'COUNT', 64)
		for _, key in ipairs(r[2]) do record(string.sub(key, #P + 2)) end
		return r[1], max(#r[2], 16)
	end,
	function(at) return within('e', at, by_id(function(j) return j.state == LEASED end)) end,
	function(at) return within('k', at, by_id(function(j) return j.state >= DONE end)) end,
	function(at) return fields('w', at, by_id(function(j) return j.state == LEASED end)) end,
	function(at) -- lanes
		local pbs = call('ZRANGE', P .. 'r', 0, -1)
		local n = tonumber(at) + 1
		local pb = pbs[n]
		if not pb then return '0', 1 end
		local _, seen = within('h' .. pb, 0, function(m, score)
			local l = Lane.get(string.sub(m, 7))
			local h = l.head
			if not h or h.at ~= score or h.sq ~= string.sub(m, 1, 6) then
				if h then lane(l) end
				return false
			end
			lane(l)
			return true
		end)
		return pbs[n + 1] and tostring(n) or '0', seen
	end,
	function(at) -- ordered groups
		return fields('H', at, function(group, id)
			local j = Job.load(id)
			if j and j.state <= LEASED then return true end
			Gate.free('G' .. group)
			return false
		end)
	end,
	function(_) -- running jobs, as limits count them
		if not Q.is(LIMITS) or call('ZCARD', P .. 'e') > 1000 then return '0', 1 end
		Gate.flush()
		Buf.flush()
		Gate.recount()
		return '0', call('ZCARD', P .. 'e')
	end,
	function(at) -- lanes that wait at a gate which has room
		local list, next = scan('HSCAN', P .. 'Y', at)
		for i = 1, #list, 2 do
			local l = Lane.get(list[i])
			if l.head then
				local gate = list[i + 1]
				local is, until_ = Gate.keeps(gate, l, Lane.first(l))
				local looked = call('SISMEMBER', P .. 'F', gate) + call('SISMEMBER', P .. 'FX', gate) > 0
				if not looked and not is then
					call('SADD', P .. 'F', gate)
					fixed('F')
				elseif not looked and until_ and not call('ZSCORE', P .. 'W', gate) then
					Gate.wake(gate, until_)
					fixed('W')
				end
			end
		end
		return next, #list / 2
	end,
	function(at) -- keys
		return fields('K', at, function(name, s)
			local id, _, until_ = unpack_('>c16c16I8', s)
			if until_ ~= 0 then return until_ > Q.now or call('ZSCORE', P .. 'U', name) end
			local j = Job.load(id)
			return j and j.state <= LEASED
		end)
	end,
}
steps[#steps + 1] = function(_) -- the move
	for _ = 1, Move.prove() do fixed('M') end
	return '0', 4
end
steps[#steps + 1] = function(at) -- ends of members whose completion jobs are not here
	local next, seen, wrong = Move.met(at)
	for _ = 1, wrong do fixed('B!') end
	return next, seen
end
for state, name in ipairs({ 'L1', 'L2', 'L3', 'L4', 'L5', 'L6' }) do
	steps[#steps + 1] = function(at)
		return within(name, at, function(m)
			local j = Job.load(string.sub(m, 7))
			return j and j.state == state and pack('>I6', j.eseq) == string.sub(m, 1, 6) and (state ~= READY or Job.is(j, APART))
		end)
	end
end
for wall, name in pairs({ [false] = 'd0', [true] = 'd1' }) do
	steps[#steps + 1] = function(at)
		return within(name, at, function(m)
			local j = Job.load(string.sub(m, 7))
			return j and j.state == SCHEDULED and pack('>I6', j.pseq) == string.sub(m, 1, 6) and Job.is(j, WALL) == wall
		end)
	end
	steps[#steps + 1] = function(at)
		return within(wall and 's1' or 's0', at, by_id(function(j) return j.state == READY end))
	end
end

-- step looks at some entries, and at all when there are few. It returns whether the
-- round goes on.
function Repair.step(most)
	Lane.flush()
	Gate.flush()
	Count.flush()
	Buf.flush()
	local e = call('HMGET', P .. 'E', 'step', 'at', 'over')
	local n, at, over = tonumber(e[1] or 1), e[2] or '0', tonumber(e[3] or 0)
	if n == 1 and at == '0' and over ~= 0 and over <= Q.now and over + ROUND > Q.now then return false end
	local seen = 0
	while seen < most do
		local looked
		at, looked = steps[n](at)
		seen = seen + looked + 1
		if at == '0' then
			n = n + 1
			if not steps[n] then
				call('HSET', P .. 'E', 'step', 1, 'at', '0', 'over', string.format('%.0f', Q.now))
				return false
			end
		end
	end
	call('HSET', P .. 'E', 'step', n, 'at', at)
	return true
end
