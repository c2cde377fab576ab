-- main: runs the calls of a script one after the other.

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
