-- key: idempotency keys, hash K: task and key to the job that holds it, the
-- digest of its payload, and until when (0: the job frees it). Sorted set U: the
-- keys that are held for a time, by when they are free.

local Key = {}

-- holder returns id and digest of who holds a key now, or nil.
function Key.holder(task, key)
	local s = call('HGET', P .. 'K', task .. key)
	if s then
		local id, digest, until_ = unpack_('>c16c16I8', s)
		if until_ == 0 or until_ > Q.now then return id, digest, until_ end
	end
	if Q.is(RESTS) then return Move.holder(task, key) end
end

function Key.hold(task, key, id, digest, until_)
	call('HSET', P .. 'K', task .. key, id .. digest .. pack('>I8', until_))
	if until_ ~= 0 then
		call('ZADD', P .. 'U', until_, task .. key)
		if until_ < Q.keyed then Q.keyed = until_ end
	end
end

-- free frees the key that a job holds, unless it is held for a time (hold 2).
function Key.free(j)
	local x = Job.ext(j)
	if not x.key or x.hold == 2 then return end
	local id = Key.holder(j.task, x.key)
	if id == j.id then call('HDEL', P .. 'K', j.task .. x.key) end
end

-- retake gives a requeued job its key again, if nobody else has it.
function Key.retake(j)
	local x = Job.ext(j)
	if x.key and x.hold ~= 2 and not Key.holder(j.task, x.key) then Key.hold(j.task, x.key, j.id, x.digest, 0) end
end

-- sweep forgets at most n keys that are free by now.
function Key.sweep(n)
	if Q.keyed > Q.now then return 0 end
	local done = 0
	for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'U', '-inf', Q.now, 'LIMIT', 0, n)) do
		call('ZREM', P .. 'U', name)
		local s = call('HGET', P .. 'K', name)
		if s then
			local until_ = unpack_('>I8', s, 33)
			if until_ ~= 0 and until_ <= Q.now then call('HDEL', P .. 'K', name) end
		end
		done = done + 1
	end
	Q.keyed = top(P .. 'U') or NEVER
	return done
end
