-- plain: the way of plain jobs into their lanes. Such a job is ready at once, has a
-- new id and nothing but a task, attempts and a body. Those that come one at a time
-- wait in an inbox (list I), where fast.lua puts them, until they are many or any
-- other script runs: together they cost a quarter of what each would cost alone. An
-- entry is the time at which it came, and the call.

local Plain = { of = {}, records = {} }

local LANE = '\128\0\0\0\0\0\0' -- what the name of a plain lane has behind the task
local FRONT, PRIO = '\64\0\0', '\128\0\0\0' -- of the header of a job that is ready
local EMPTY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- and was never claimed

-- task returns what plain jobs of a task share.
local function task(name)
	local no = Task.make(name)
	local l = Lane.get(no .. LANE)
	local t = { no = no, lane = l, set = Buf.set(l.key), count = Count.task(no), front = FRONT .. no .. PRIO, n = 0 }
	Plain.of[name] = t
	return t
end

-- add adds a job now; rest is the end of its header, and its body.
function Plain.add(id, name, rest)
	local t = Plain.of[name] or task(name)
	local now, l = Q.now, t.lane
	if t.now ~= now then
		local at = pack('>I7', now)
		t.now, t.head, t.middle = now, t.front .. at, at .. at .. EMPTY
	end
	local sq, size, n = pack('>I6', Q.next()), unpack_('>I4', rest, 13), #Plain.records
	Plain.records[n + 1], Plain.records[n + 2] = P .. 'j' .. id, t.head .. sq .. sq .. t.middle .. rest
	t.set[sq .. id] = now
	if not l.head then l.head = { at = now, sq = sq, id = id } end
	t.n = t.n + 1
	Q.depth, Q.ready, Q.bytes, Q.rbytes = Q.depth + 1, Q.ready + 1, Q.bytes + size, Q.rbytes + size
end

-- write ends some adding.
function Plain.write()
	local r = Plain.records
	for i = 1, #r, 2000 do call('MSET', unpack(r, i, min(i + 1999, #r))) end
	Plain.records = {}
	for _, t in pairs(Plain.of) do
		Lane.touch(t.lane)
		Wake.ready(t.no, t.n)
		t.count[READY], t.count[ENQUEUED] = t.count[READY] + t.n, t.count[ENQUEUED] + t.n
	end
	Plain.of = {}
	if Q.depth > Q.high then Q.high = Q.depth end
end

-- collect takes in what lies in the inbox.
function Plain.collect(list)
	call('DEL', P .. 'I')
	local calls = {}
	for k, s in ipairs(list) do calls[k] = string.sub(s, 8, 23) end
	Q.now = Q.last
	local fresh = Calls.fresh(calls)
	for k, s in ipairs(list) do
		if fresh[calls[k]] then
			fresh[calls[k]] = nil
			local at, id, name, rest = unpack_('>I7xxxxxxxxxxxxxxxxxxxxxc16I2c0I4c0', s)
			Q.now = max(Q.now, at)
			Q.count(Q.now - Q.off)
			Plain.add(id, name, rest)
		end
	end
	Plain.write()
	Q.last = Q.now
end
