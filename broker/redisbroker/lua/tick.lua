-- tick moves a schedule's cursor and enqueues its jobs, if the cursor is at due
-- and the wall clock not before it. Hash C: schedule to whether it is paused, and
-- its cursor in nanoseconds.
-- Call: call id, schedule, due (8 bytes), due µs, next (8 bytes), number of jobs, jobs.
-- Answer: status, whether it was won, wall clock µs.

local function tick(arg)
	local id, name, due, dueus, next, n, i = unpack_('>c16I2c0c8I8c8I4', arg)
	local was = Calls.get(id)
	if was then return was end
	local cursor = call('HGET', P .. 'C', name)
	local won = cursor and not Q.is(RESTS) and string.byte(cursor) == 0 and string.sub(cursor, 2) == due and Q.wall >= dueus and next > due
	local answer = OK .. pack('>BI8', won and 1 or 0, Q.wall)
	if won then
		local jobs = Add.list(arg, i, n)
		Q.promote(200)
		local bad = Add.members(jobs)
		if bad then return bad end
		call('HSET', P .. 'C', name, '\0' .. next)
		for _, job in ipairs(jobs) do Add.one(job) end
		Calls.keep(id, answer)
	end
	return answer
end

return run(tick)
