-- maintain does one bounded step of upkeep.
-- Call: call id (none), most jobs, whether indexes are to be proved. Answer: status, whether there is more to do now,
-- µs until there is (0: nothing known), number of entries of the outbox, and each:
-- number, entry.

-- starts cancels at most n jobs that were not started in time.
local function starts(n)
	local done = 0
	for key, bound in pairs({ s0 = 'start0', s1 = 'start1' }) do
		local now = key == 's0' and Q.now or Q.wall
		if Q[bound] <= now then
			Buf.one(P .. key)
			for _, id in ipairs(call('ZRANGEBYSCORE', P .. key, '-inf', now, 'LIMIT', 0, n)) do
				local j = Job.load(id)
				if j and j.state == READY and Life.late(j) then
					Life.final(j, CANCELLED, R_not_started, {})
				else
					Buf.zset(P .. key, id, false)
				end
				done = done + 1
			end
			Q[bound] = Life.bound(key)
		end
	end
	return done
end

-- keeps drops at most n final jobs whose retention is over.
local function keeps(n)
	if Q.keep > Q.now then return 0 end
	Buf.one(P .. 'k')
	local ids = call('ZRANGEBYSCORE', P .. 'k', '-inf', Q.now, 'LIMIT', 0, n)
	for _, id in ipairs(ids) do
		local j = Job.load(id)
		if j and j.state >= DONE then Life.remove(j) else Buf.zset(P .. 'k', id, false) end
	end
	Q.keep = Life.bound('k')
	return #ids
end

-- waits forgets claims and readers that wait no more and have not said so.
local function waits()
	call('ZREMRANGEBYSCORE', P .. 'Z', '-inf', Q.now)
	call('ZREMRANGEBYSCORE', P .. 'B', '-inf', Q.now)
	local first = Q.fix % max(Q.tasks, 1)
	Q.fix = (Q.fix + 32) % 1048576
	local keys = { P .. 'z*' }
	for k = 1, min(Q.tasks, 32) do keys[k + 1] = P .. 'z' .. pack('>I3', (first + k - 1) % Q.tasks + 1) end
	for _, key in ipairs(keys) do
		for _, waiter in ipairs(call('ZRANGE', key, 0, 15)) do
			if not call('ZSCORE', P .. 'Z', waiter) then call('ZREM', key, waiter) end
		end
	end
end

-- forget takes some fields out of a hash that say nothing any more.
local function forget(key, over)
	local some = call('HRANDFIELD', key, 16, 'WITHVALUES')
	for i = 1, #some, 2 do
		if over(some[i + 1]) then call('HDEL', key, some[i]) end
	end
end

-- full forgets buckets that are full again, and the service of tenants that is past:
-- values and tenants come and go without end.
local function full()
	if Q.is(LIMITS) then
		Gate.flush()
		Buf.flush()
		Gate.meters = {}
		if not Gate.rules then Gate.load() end
		for k = 1, min(#Gate.all, 16) do
			local r = Gate.all[(Q.fix + k) % #Gate.all + 1] -- others at the next time
			if r.running == 0 then forget(P .. 'm' .. r.name, function(s) return unpack_('>I8', s) < Q.now end) end
		end
	end
	for _, pb in ipairs(call('ZRANGE', P .. 'r', 0, 3)) do
		local now = Turn.now(pb)
		forget(P .. 'v' .. pb, function(s) return unpack_('>d', s) <= now end)
	end
end

local function maintain(arg)
	local _, n, fix, i = unpack_('>c16I4B', arg)
	local more = Q.promote(n)
	more = Q.expire(n) or more
	more = starts(n) >= n or more
	more = keeps(n) >= n or more
	more = Key.sweep(n) >= n or more
	Gate.rouse()
	waits()
	full()
	local proving = fix == 1 and Repair.step(50)
	local next = min(Q.due0 - Q.now, Q.due1 - Q.wall, Q.lease - Q.now, Q.start0 - Q.now, Q.start1 - Q.wall, Q.keep - Q.now, Q.wake - Q.now, Q.keyed - Q.now)
	if proving then next = min(next, 5000000) end
	if next > NEVER / 2 then next = 0 else next = max(next, 1) end
	local out = { OK .. pack('>BI8', more and 1 or 0, next), '' }
	local entries = call('HRANDFIELD', P .. 'O', 64, 'WITHVALUES') -- not behind those that cannot be delivered
	for k = 1, #entries, 2 do out[#out + 1] = entries[k] .. str(entries[k + 1]) end
	out[2] = pack('>I4', #out - 2)
	return table.concat(out)
end

return run(maintain)
