-- enqueue adds jobs, all or none.
-- Call: call id, flags (1: the answer has to be remembered whole, 2: plain jobs),
-- number of jobs, jobs. A plain job is ready at once, has a new id and nothing but
-- task, attempts and body: id, task, the last 16 bytes of its header with the body.
-- Answer: status, and that alone when all were added under the ids that the caller
-- gave; for each job how (0 added, 1 existing, 2 differs) and id.
-- It writes KEYS[1], j, and n, l, o, h, r, L1, L2, d0, d1, s0, s1, K, U, T, t, q, i.

local WHOLE, SIMPLE = 1, 2

-- plain unpacks plain jobs as others are unpacked.
local function plain(arg, i, count)
	local jobs = {}
	for k = 1, count do
		local n = {
			new = 1, prio = PLAIN, when = 0, at = 0, ordered = 0, hold = 0, repeats = 0, keyfor = 0, batch = Calls.none,
			ordinal = 0, members = 0, start = 0, tenant = '', group = '', key = '', digest = '', ext = '',
		}
		local rest
		n.id, n.task, rest, i = unpack_('>c16I2c0I4c0', arg, i)
		n.most, n.bytes, n.body = unpack_('>I4', rest), unpack_('>I4', rest, 13), string.sub(rest, 17)
		jobs[k] = n
	end
	return jobs
end

-- quick adds plain jobs.
local function quick(arg, i, count)
	for _ = 1, count do
		local id, task, rest
		id, task, rest, i = unpack_('>c16I2c0I4c0', arg, i)
		Plain.add(id, task, rest)
	end
	Plain.write()
end

local function enqueue(arg)
	local id, flags, count, i = unpack_('>c16BI4', arg)
	local was = Calls.get(id)
	if was then return was end
	local simple = band(flags, SIMPLE) ~= 0
	if simple and count > 0 and not Q.is(CAPS) and Q.watch <= Q.now then
		Q.promote(200)
		quick(arg, i, count)
		Calls.keep(id, OK)
		return OK
	end
	local jobs
	if simple then jobs = plain(arg, i, count) else jobs = Add.list(arg, i, count) end
	Q.promote(200)
	local bad = Add.members(jobs)
	if bad then return bad end
	local full = Room.make(jobs)
	if full then return full end
	local out, short = { OK }, band(flags, WHOLE) == 0
	for k, n in ipairs(jobs) do
		local how, job = Add.one(n)
		out[k + 1] = string.char(how) .. job
		short = short and how == 0
	end
	local answer = short and OK or table.concat(out)
	Calls.keep(id, answer)
	return answer
end

return run(enqueue, early)
