-- apply does one step of a command: it chooses its jobs first, then changes them.
-- Call: call id, kind (1 cancel, 2 requeue, 3 delete, 4 pause, 5 resume), bits of
-- the states that the filter names, most to change, most records to look at,
-- state and place to begin behind, reason, filter.
-- Answer: status, changed, state (0: it is over) and place where the next goes on.

local STATES = { { SCHEDULED, READY, LEASED }, { DEAD, CANCELLED }, { SCHEDULED, READY, DONE, DEAD, CANCELLED } }

local function cancel(j, why)
	if j.state == LEASED then
		if Job.is(j, ASKED) then return 0 end
		Job.mark(j, ASKED, true)
		j.reason = R_cancel_asked
		if why ~= '' then Job.set(j, 'e', why) end
		Job.save(j)
		Wake.tell(j, Job.worker(j))
		return 1
	end
	Life.final(j, CANCELLED, R_cancelled, { err = why ~= '' and why or nil })
	return 1
end

local function delete(j)
	local c = Count.task(j.task)
	c[DELETED] = c[DELETED] + 1
	Life.remove(j)
	Wake.final(j.id)
	return 1
end

local function requeue(j)
	Life.again(j, R_requeued, { attempts = 0, delay = 0, kind = j.ended })
	return 1
end

local function pause(on)
	if Q.is(PAUSED) == on then return 0 end
	Q.mark(PAUSED, on)
	if not on then Wake.everyone() end
	return 1
end

-- choose lists the jobs of a step, and where the next one begins.
local function choose(kind, bits, most, look, state, at, seq, f)
	local found, begun, seen = {}, state == 0, 0
	for _, s in ipairs(STATES[kind]) do
		if s == state then begun = true end
		if begun and (bits == 0 or band(bits, 2 ^ s) ~= 0) then
			local a, q = 0, 0
			if s == state then a, q = at, seq end
			if #f.ids > 0 then
				for _, j in ipairs(Walk.named(f, s, a, q)) do
					if #found == most then return found, s, a, q end
					found[#found + 1] = j
					a, q = j.changed, j.eseq
				end
			else
				local w = Walk.state(s, a, q)
				local j = Walk.next(w)
				while j do
					if #found == most or seen == look then return found, s, a, q end
					seen = seen + 1
					a, q = j.changed, j.eseq
					if Walk.chosen(f, j) and not Job.is(j, ASKED) then found[#found + 1] = j end
					j = Walk.next(w)
				end
			end
		end
	end
	return found, 0, 0, 0
end

local function apply(arg)
	local id, kind, bits, most, look, state, at, seq, why, i = unpack_('>c16BBI4I4BI8I6I2c0', arg)
	local was = Calls.get(id)
	if was then return was end
	local f = Walk.filter(arg, i)
	Q.promote(200)
	Q.expire(100)
	local changed, next, a, q = 0, 0, 0, 0
	if kind >= 4 then
		changed = pause(kind == 4)
	else
		Lane.flush()
		Buf.flush()
		local found
		found, next, a, q = choose(kind, bits, most, look, state, at, seq, f)
		for _, old in ipairs(found) do
			local j = Job.load(old.id) -- an earlier one may have changed it
			if j and (kind == 1 and j.state <= LEASED or kind == 2 and j.state >= DEAD or kind == 3 and j.state ~= LEASED) then
				if kind == 1 then
					changed = changed + cancel(j, why)
				elseif kind == 2 then
					changed = changed + requeue(j)
				else
					changed = changed + delete(j)
				end
			end
		end
	end
	local answer = OK .. pack('>I4BI8I6', changed, next, a, q)
	Calls.keep(id, answer)
	return answer
end

return run(apply)
