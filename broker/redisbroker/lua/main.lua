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

-- run makes each call. One that finds no queue, or one of a newer format, is
-- answered so.
local function run(step)
	local answers = {}
	local bad = Q.load()
	for n = 1, #ARGV do
		if bad then
			answers[n] = bad
		else
			Q.clock(ARGV[n])
			answers[n] = step(ARGV[n])
			Q.passed()
		end
	end
	if not bad then finish() end
	return answers
end
