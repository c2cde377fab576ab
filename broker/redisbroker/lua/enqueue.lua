-- enqueue adds jobs, all or none.
-- Call: call id, flags (1: the answer has to be remembered whole, 2: plain jobs),
-- number of jobs, jobs. A plain job is ready at once, has a new id and nothing but
-- task, attempts and body: id, task, the last 16 bytes of its header with the body.
-- Answer: status; for each job how (0 added, 1 existing, 2 differs) and id.
-- It writes KEYS[1], j, and n, l, o, h, r, L1, L2, d0, d1, s0, s1, K, U, T, t, q, i.

local WHOLE, SIMPLE = 1, 2

local function answered(s, jobs)
	if #s == 1 then -- all were added under the ids that the caller gave
		local out = { OK }
		for k, n in ipairs(jobs) do out[k + 1] = '\0' .. n.id end
		return table.concat(out)
	end
	return s
end

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
	local now, zero = pack('>I7', Q.now), string.rep('\0', 25)
	local out, records = { OK }, {}
	local name, no, l, lane, front, c
	local here = 0
	for k = 1, count do
		local id, task, rest
		id, task, rest, i = unpack_('>c16I2c0I4c0', arg, i)
		if task ~= name then
			if here > 0 then Wake.ready(no, here) end
			name, no, here = task, Task.make(task), 0
			l = Lane.get(no .. pack('>I4BI2', PLAIN, 0, 0))
			lane, c = Buf.set(l.key), Count.task(no)
			front = string.char(READY * 32) .. '\0\0' .. no .. pack('>I4', PLAIN) .. now
			Lane.touch(l)
		end
		local sq = pack('>I6', Q.next())
		records[2 * k - 1], records[2 * k] = P .. 'j' .. id, front .. sq .. sq .. now .. now .. zero .. rest
		lane[sq .. id] = Q.now
		if not l.head then l.head = { at = Q.now, sq = sq, id = id } end
		local size = unpack_('>I4', rest, 13)
		Q.bytes, Q.rbytes = Q.bytes + size, Q.rbytes + size
		c[READY], c[ENQUEUED] = c[READY] + 1, c[ENQUEUED] + 1
		here = here + 1
		out[k + 1] = '\0' .. id
	end
	for i = 1, #records, 2000 do call('MSET', unpack(records, i, min(i + 1999, #records))) end
	Wake.ready(no, here)
	Q.depth, Q.ready = Q.depth + count, Q.ready + count
	if Q.depth > Q.high then Q.high = Q.depth end
	return table.concat(out)
end

local function enqueue(arg)
	local id, flags, count, i = unpack_('>c16BI4', arg)
	local was = Calls.get(id)
	local simple = band(flags, SIMPLE) ~= 0
	if simple and not was and count > 0 and not Q.is(CAPS) and Q.watch <= Q.now then
		Life.promote(200)
		local answer = quick(arg, i, count)
		Calls.keep(id, OK)
		return answer
	end
	local jobs
	if simple then jobs = plain(arg, i, count) else jobs = Add.list(arg, i, count) end
	if was then return answered(was, jobs) end
	Life.promote(200)
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
	local answer = table.concat(out)
	Calls.keep(id, short and OK or answer)
	return answer
end

return run(enqueue)
