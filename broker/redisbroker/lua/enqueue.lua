-- enqueue adds jobs, all or none.
-- Call: call id, whether the answer has to be remembered whole, number of jobs,
-- jobs. Answer: status; for each job how (0 added, 1 existing, 2 differs) and id.
-- It writes KEYS[1], j, and n, l, o, h, r, L1, L2, d0, d1, s0, s1, K, U, T, t, q, i.

local function answered(s, jobs)
	if #s == 1 then -- all were added under the ids that the caller gave
		local out = { OK }
		for k, n in ipairs(jobs) do out[k + 1] = '\0' .. n.id end
		return table.concat(out)
	end
	return s
end

local function enqueue(arg)
	local id, flags, count, i = unpack_('>c16BI4', arg)
	local jobs = Add.list(arg, i, count)
	local was = Calls.get(id)
	if was then return answered(was, jobs) end
	Life.promote(200)
	local bad = Add.members(jobs)
	if bad then return bad end
	local full = Room.make(jobs)
	if full then return full end
	local out, plain = { OK }, band(flags, 1) == 0
	for k, n in ipairs(jobs) do
		local how, job = Add.one(n)
		out[k + 1] = string.char(how) .. job
		plain = plain and how == 0
	end
	local answer = table.concat(out)
	Calls.keep(id, plain and OK or answer)
	return answer
end

return run(enqueue)
