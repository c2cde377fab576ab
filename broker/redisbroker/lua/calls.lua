-- calls: the answers of calls, remembered for as long as the transport repeats them,
-- in hashes (i), each for the ids that clients made within 64 ms: so a call costs the
-- server no key of its own, which has to expire.

local Calls = { none = string.rep('\0', 16) }

-- bucket names the hash of a call id.
function Calls.bucket(id) return string.sub(id, 1, 5) .. string.char(floor(string.byte(id, 6) / 64)) end

function Calls.get(id)
	if id == Calls.none then return nil end
	return call('HGET', P .. 'i' .. Calls.bucket(id), id) or nil
end

-- before returns what a call was answered that is made again where the queue is not
-- any more: it was spread meanwhile, or is not any longer.
function Calls.before(arg)
	local id = string.sub(arg, 1, 16)
	if Calls.partly or id == Calls.none then return nil end
	return Calls.get(id) or call('GET', P .. 'P' .. id) or nil
end

function Calls.keep(id, answer)
	if id == Calls.none then return end
	local bucket = Calls.bucket(id)
	call('HSET', P .. 'i' .. bucket, id, answer)
	Calls.renew(bucket)
end

-- renew lets a hash live on. The one in use is renewed now and then, in time for
-- what came last.
function Calls.renew(bucket)
	if bucket == Q.bucket and Q.renew > Q.now then return end
	call('PEXPIRE', P .. 'i' .. bucket, CALL_MS + RENEW_MS)
	Q.bucket, Q.renew = bucket, Q.now + RENEW_MS * 500
end

-- fresh remembers that some calls took place, and returns which of them had not
-- before: id to true. A call without an id is none of them.
function Calls.fresh(ids)
	local hashes, fresh = {}, {}
	for _, id in ipairs(ids) do
		if id ~= Calls.none then
			local bucket = Calls.bucket(id)
			local list = hashes[bucket]
			if not list then list = {}; hashes[bucket] = list end
			list[#list + 1] = id
		end
	end
	for bucket, list in pairs(hashes) do
		local key, new = P .. 'i' .. bucket, {}
		for i, is in ipairs(call('HMGET', key, unpack(list))) do
			local id = list[i]
			if not is and not fresh[id] then
				fresh[id] = true
				local n = #new
				new[n + 1], new[n + 2] = id, OK
			end
		end
		many('HSET', key, new)
		Calls.renew(bucket)
	end
	return fresh
end
