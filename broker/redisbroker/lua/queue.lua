-- queue: the configuration of a queue, KEYS[1]: what every script reads first
-- and writes last. It is one string, of which fast.lua reads the beginning.

local Q = { dirty = false }
local QF = '>BI4I8i8I8I8I6I4I3I6I8I6I8I6I6I8I6I8I6I8I8I8I8I8I8I8I8I8I4I8c6d'
local VERSION = 2

-- A queue that rests for a move has a version of its own: an older build, which
-- knows of no moves, would let it work.
local RESTING = 3

-- In place of the configuration of a queue that is spread stands a mark of another
-- version: how many parts it has (1 byte), and which spreading that is (6).
local MARK = 4
local LEAVING, LEFT, ARRIVING, ARRIVED = 1, 2, 3, 4 -- the states of a move

-- The bits of flags. STILL are those with which nothing is claimed.
local PAUSED, LIMITS, WEIGHTS, CAPS, RETAINS, MOVES, RESTS, STILL = 1, 2, 4, 8, 16, 32, 64, 65

-- load reads the configuration. It returns nil, or the answer to every call.
function Q.load()
	local s = call('GET', KEYS[1])
	if not s then return UNKNOWN_QUEUE end
	if string.byte(s) == MARK then return SPREAD .. string.sub(s, 2, 2) end
	if string.byte(s) ~= VERSION and string.byte(s) ~= RESTING then return NEWER end
	Q.version, Q.flags, Q.last, Q.off, Q.watch, Q.idle, Q.seq, Q.fix, Q.tasks, Q.depth, Q.bytes, Q.ready, Q.rbytes, Q.high,
	Q.tdepth, Q.tbytes, Q.tready, Q.trbytes, Q.revision, Q.due0, Q.due1, Q.lease, Q.start0, Q.start1, Q.keep, Q.wake,
	Q.keyed, Q.await, Q.parked, Q.renew, Q.bucket, Q.ageing = unpack_(QF, s)
	return nil
end

function Q.save()
	call('SET', KEYS[1], pack(QF,
		Q.version, Q.flags, Q.last, Q.off, Q.watch, Q.idle, Q.seq, Q.fix, Q.tasks, Q.depth, Q.bytes, Q.ready, Q.rbytes, Q.high,
		Q.tdepth, Q.tbytes, Q.tready, Q.trbytes, Q.revision, Q.due0, Q.due1, Q.lease, Q.start0, Q.start1, Q.keep, Q.wake,
		Q.keyed, Q.await, Q.parked, Q.renew, Q.bucket, Q.ageing))
end

function Q.is(flag) return band(Q.flags, flag) ~= 0 end
function Q.mark(flag, on)
	if on then Q.flags = bor(Q.flags, flag) else Q.flags = band(Q.flags, bnot(flag)) end
end

-- next numbers places, entries into states and leases. The numbers keep up with
-- the wall clock (32 for each millisecond), so that they go on above those that a
-- failover has lost.
function Q.next()
	Q.seq = Q.seq + 1
	return Q.seq
end

-- count lets the numbers keep up.
function Q.count(wall) Q.seq = max(Q.seq, floor(wall / 1000) * 32) end

-- clock sets the time of a call: Q.wall, which can step, and Q.now, which goes
-- on from its last value when the wall clock steps back.
function Q.clock(arg)
	local wall, steady = Time.read(arg)
	if not steady then
		steady = wall + Q.off
		if steady < Q.last then
			Q.off = Q.last - wall
			steady = Q.last
		end
	end
	Q.wall, Q.now = wall, max(steady, Q.last)
	Q.count(wall)
end

-- promote makes at most n due jobs ready, and expire ends at most n leases that are
-- over; each returns whether there may be more.
function Q.promote(n)
	if Q.due0 > Q.now and Q.due1 > Q.wall then return false end
	return Life.promote(n)
end

function Q.expire(n)
	if Q.lease > Q.now then return false end
	return Life.expired(n)
end

-- passed notes that all that was due by now is done.
function Q.passed() Q.last = Q.now end

-- make makes the configuration of a new queue.
function Q.make()
	Q.version, Q.ageing, Q.bucket = VERSION, 0, '      '
	for _, name in ipairs({
		'seq', 'last', 'off', 'fix', 'tasks', 'flags', 'depth', 'bytes', 'ready', 'rbytes', 'high', 'tdepth', 'tbytes',
		'tready', 'trbytes', 'revision', 'watch', 'await', 'idle', 'parked', 'renew',
	}) do Q[name] = 0 end
	for _, name in ipairs({ 'due0', 'due1', 'lease', 'start0', 'start1', 'keep', 'wake', 'keyed' }) do Q[name] = NEVER end
	Q.save()
end
