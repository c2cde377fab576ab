-- main: runs the calls of a script one after the other.

-- finish writes what is gathered: at the end of every script.
local function finish()
	if rawget(Lane, 'flush') then Lane.flush() end -- else nobody has used it
	if rawget(Gate, 'flush') then Gate.flush() end
	if rawget(Turn, 'flush') then Turn.flush() end
	Count.flush()
	Buf.flush()
	Wake.flush()
	Q.save()
end

-- brief is what a script returns: its answers, or their number when each is OK and no
-- more, which costs both sides less.
local function brief(answers)
	for n = 1, #answers do
		if answers[n] ~= OK then return answers end
	end
	return #answers
end

-- run makes each call, unless their answers are known. One that finds no queue, one
-- that is spread, or one of a newer format, is answered so; but a repeat of a call
-- that took place before the queue was spread, or ceased to be, as it was then.
local function run(step, known)
	local answers = known or {}
	local bad = Q.load()
	if not bad then
		local inbox = call('LRANGE', P .. 'I', 0, -1)
		if inbox[1] then Plain.collect(inbox) end
	end
	for n = 1, known and 0 or #ARGV do
		if bad then
			answers[n] = bad ~= NEWER and Calls.before(ARGV[n]) or bad
		else
			Q.clock(ARGV[n])
			answers[n] = step(ARGV[n])
			Q.passed()
		end
	end
	if not bad then finish() end
	return brief(answers)
end
