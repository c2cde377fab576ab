-- plain: the way of plain jobs into their lanes. Such a job is ready at once, has a
-- new id and nothing but a task, attempts and a body. Those that come one at a time
-- wait in an inbox (list I), where fast.lua puts them, until they are many or any
-- other script runs: together they cost a quarter of what each would cost alone. It
-- holds calls, and before those of a run the time at which they came, seven bytes.

local Plain = { of = {}, records = {}, n = 0 }

local LANE = '\128\0\0\0\0\0\0' -- what the name of a plain lane has behind the task
local FRONT, PRIO = '\64\0\0', '\128\0\0\0' -- of the header of a job that is ready
local EMPTY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- and was never claimed

-- task returns what plain jobs of a task share.
local function task(name)
	local no = Task.make(name)
	local t = { no = no, lane = Lane.get(no .. LANE), places = {}, front = FRONT .. no .. PRIO, n = 0 }
	Plain.of[name] = t
	return t
end

-- add adds a job now; rest is the end of its header, and its body.
function Plain.add(id, name, rest)
	local t, now = Plain.of[name] or task(name), Q.now
	if t.now ~= now then
		local at = pack('>I7', now)
		t.now, t.score, t.head, t.middle = now, score(now), t.front .. at, at .. at .. EMPTY
	end
	local sq, size = pack('>I6', Q.next()), unpack_('>I4', rest, 13)
	local records, places, n, k = Plain.records, t.places, Plain.n + 2, t.n + 2
	records[n - 1], records[n] = P .. 'j' .. id, t.head .. sq .. sq .. t.middle .. rest
	places[k - 1], places[k] = t.score, sq .. id
	Plain.n, t.n = n, k
	local l = t.lane
	if not l.head or now < l.head.at then l.head = { at = now, sq = sq, id = id } end
	Q.bytes, Q.rbytes = Q.bytes + size, Q.rbytes + size
end

-- write ends some adding.
function Plain.write()
	local r = Plain.records
	for i = 1, Plain.n, 2000 do call('MSET', unpack(r, i, min(i + 1999, Plain.n))) end
	for _, t in pairs(Plain.of) do
		local n, c = t.n / 2, Count.task(t.no)
		many('ZADD', t.lane.key, t.places)
		Lane.touch(t.lane)
		Wake.ready(t.no, n)
		c[READY], c[ENQUEUED] = c[READY] + n, c[ENQUEUED] + n
		Q.depth, Q.ready = Q.depth + n, Q.ready + n
	end
	Plain.of, Plain.records, Plain.n = {}, {}, 0
	if Q.depth > Q.high then Q.high = Q.depth end
end

-- collect takes in what lies in the inbox.
function Plain.collect(list)
	call('DEL', P .. 'I')
	local ids = {}
	for _, s in ipairs(list) do
		if #s > 7 then ids[#ids + 1] = string.sub(s, 1, 16) end
	end
	Q.now = Q.last
	local fresh, n = Calls.fresh(ids), 0
	for _, s in ipairs(list) do
		if #s == 7 then
			local at = unpack_('>I7', s)
			if at > Q.now then
				Q.now = at
				Q.count(at - Q.off)
			end
		else
			n = n + 1
			local id = ids[n]
			if fresh[id] or id == Calls.none then
				fresh[id] = nil
				local job, name, rest = unpack_('>c16I2c0I4c0', s, 22)
				Plain.add(job, name, rest)
			end
		end
	end
	Plain.write()
	Q.last = Q.now
end
