-- spread makes a queue one that is spread over several parts, and one that is not.
--
-- A part is a queue: its keys begin with NAMESPACE:{QUEUE}: for part 0, whose keys
-- are those that the queue has when it is not spread, and with a tag of its own for
-- each other. While it is open its configuration does not stand in c, but in the
-- key whose letter says how many parts there are: 2 to 9, and : ; < = > ? @ for 10
-- to 16. So nobody who does not know that finds it. In c of part 0 stands a mark
-- (queue.lua) then, and in c of another part its configuration while it is closed.
-- g! is the last spreading (a number) in which this part was closed: who is late
-- does not open it for that one again.
--
-- Call: call id (none), what, number of parts, spreading, revision of the settings.
-- KEYS[1] ends with c for what 1, 2 and 6, else with the letter of the parts.
--   1 reads the mark
--   2 spreads the queue, if it has the settings of that revision
--   3 opens a part; 4 closes it; 5 closes part 0: the queue is not spread any more
--   6 makes the mark one of another spreading, which ends a closing under way
-- Answer: status, why not (0: it is done), number of parts (0: it is not spread),
-- spreading.

local DONE_SO, JOBS, OUTBOX, KEYS_HELD, LIMITED, CAPPED, MOVING, SETTINGS, OTHER = 0, 1, 2, 3, 4, 5, 6, 7, 8

local C = P .. 'c'

-- mark reads the mark of part 0: number of parts and spreading, 0 for none.
local function mark()
	local s = call('GET', C)
	if not s or string.byte(s) ~= MARK then return 0, 0 end
	return unpack_('>BI6', s, 2)
end

local function say(why, n, g) return OK .. pack('>BBI6', why, n, g) end

-- empty takes the inbox in and says why the queue cannot be given up, 0 when it can.
local function empty(arg)
	local inbox = call('LRANGE', P .. 'I', 0, -1)
	if inbox[1] then Plain.collect(inbox) end
	Q.clock(arg)
	Q.passed()
	finish()
	if Q.is(MOVES) or Q.is(RESTS) then return MOVING end
	if Q.depth > 0 or call('EXISTS', P .. 'L4', P .. 'L5', P .. 'L6') > 0 then return JOBS end
	if call('EXISTS', P .. 'O') > 0 then return OUTBOX end
	if call('EXISTS', P .. 'K') > 0 then return KEYS_HELD end
	return DONE_SO
end

-- set spreads a queue.
local function set(arg, n, revision)
	local parts, g = mark()
	if parts > 0 then return say(parts == n and DONE_SO or OTHER, parts, g) end
	local bad = Q.load()
	if bad then return bad end
	local why = empty(arg)
	if Q.is(LIMITS) then why = LIMITED
	elseif Q.is(CAPS) then why = CAPPED
	elseif why == DONE_SO and Q.revision ~= revision then why = SETTINGS end
	if why ~= DONE_SO then return say(why, 0, 0) end
	g = max(tonumber(call('GET', P .. 'g!') or 0) + 1, floor(Q.wall / 1000))
	call('RENAME', C, P .. string.char(48 + n))
	call('SET', C, pack('>BBI6', MARK, n, g))
	call('PUBLISH', CHANNEL, 'a')
	return say(DONE_SO, n, g)
end

-- open makes a part, or takes it back into use.
local function open(n, g)
	if call('EXISTS', KEYS[1]) == 1 then return say(DONE_SO, n, g) end
	if tonumber(call('GET', P .. 'g!') or 0) >= g then return say(OTHER, n, g) end
	local rests = call('GETRANGE', C, 0, 0)
	if rests ~= '' and string.byte(rests) ~= MARK then call('RENAME', C, KEYS[1]) else Q.make() end
	return say(DONE_SO, n, g)
end

-- close takes a part out of use that has no jobs; zero says that it is part 0.
local function close(arg, n, g, zero)
	if zero then
		local parts, is = mark()
		if parts == 0 and tonumber(call('GET', P .. 'g!') or 0) == g then return say(DONE_SO, 0, g) end -- a repeat
		if parts ~= n or is ~= g then return say(OTHER, parts, is) end
	end
	if call('EXISTS', KEYS[1]) == 1 then
		local bad = Q.load()
		if bad then return bad end
		local why = empty(arg)
		if why ~= DONE_SO then return say(why, n, g) end
		call('RENAME', KEYS[1], C)
		call('PUBLISH', CHANNEL, 'a')
	elseif zero then
		call('DEL', C) -- nothing is there that it would stand for
	end
	call('SET', P .. 'g!', string.format('%.0f', max(g, tonumber(call('GET', P .. 'g!') or 0))))
	return say(DONE_SO, zero and 0 or n, g)
end

-- renew makes the mark one of the next spreading, if it is of this one.
local function renew(n, g)
	local parts, is = mark()
	if parts == n and is == g then
		is = g + 1
		call('SET', C, pack('>BBI6', MARK, n, is))
	end
	return say(DONE_SO, parts, is)
end

local answers = {}
for k = 1, #ARGV do
	local _, what, n, g, revision = unpack_('>c16BBI6I6', ARGV[k])
	if what == 1 then answers[k] = say(DONE_SO, mark())
	elseif what == 2 then answers[k] = set(ARGV[k], n, revision)
	elseif what == 3 then answers[k] = open(n, g)
	elseif what == 4 then answers[k] = close(ARGV[k], n, g, false)
	elseif what == 5 then answers[k] = close(ARGV[k], n, g, true)
	else answers[k] = renew(n, g)
	end
end
return answers
