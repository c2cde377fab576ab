-- counts reads the kept numbers. Call: call id (none). Answer: status, whether the
-- queue is paused, state and peer of its move, depth, high-water mark, bytes,
-- number of tasks; for each its name and 14 numbers.

local function counts(_)
	Q.promote(200)
	local m = Move.read() or { state = 0, peer = '' }
	local out = { OK .. pack('>BB', Q.is(PAUSED) and 1 or 0, m.state) .. str(m.peer) .. pack('>I6I6I8I4', Q.depth, Q.high, Q.bytes, Q.tasks) }
	for k, no in ipairs(Task.all()) do
		local c = Count.task(no)
		out[k + 1] = pack('>I2', #Task.named(no)) .. Task.named(no) .. pack(Count.format, unpack(c, 1, 14))
	end
	return table.concat(out)
end

return run(counts)
