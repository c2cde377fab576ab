-- job: a record, one string: a header of 84 bytes that is changed in place,
-- then tenant, group, what few jobs have (ext), and the body, which nothing
-- here reads. What changes and is rare stands in a hash beside it (x).

local Job = { size = 84 }
Job.format = '>BI2I3I4I7I6I6I7I7I7I7I7I4I4I4BBI2I4'

-- The bits of flags. Above them are three for the kind of the last settlement.
local WALL, ASKED, ORDERED, RESULT, WAITS, SIGNALLED, APART, EXTRA, T256, G256, KEPT, DUE = 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048
local ENDED = 4096
local PLAIN = 2147483648 -- priority 0, as it is kept: 2^31 more than it is

function Job.key(id) return P .. 'j' .. id end

-- parse makes a job of the first bytes of a record.
function Job.parse(id, s)
	local state, flags, task, prio, runat, pseq, eseq, enqueued, changed, claimed, expires, token, attempts, most,
	failures, tlen, glen, xlen, bytes = unpack_(Job.format, s)
	local j = {
		id = id, state = floor(state / 32), reason = state % 32, ended = floor(flags / ENDED), flags = flags % ENDED,
		task = string.sub(s, 4, 6), prio = prio, runat = runat, pseq = pseq, eseq = eseq, enqueued = enqueued,
		changed = changed, claimed = claimed, expires = expires, token = token, attempts = attempts, most = most,
		failures = failures, tlen = tlen, glen = glen, xlen = xlen, bytes = bytes, rec = s, tenant = '', group = '',
	}
	if band(flags, T256) ~= 0 then tlen = 256 end
	if band(flags, G256) ~= 0 then glen = 256 end
	if tlen + glen > 0 then
		local at = Job.size
		local need = at + tlen + glen + xlen
		if #s < need then
			s = call('GETRANGE', Job.key(id), 0, need - 1)
			j.rec = s
		end
		j.tenant = string.sub(s, at + 1, at + tlen)
		j.group = string.sub(s, at + tlen + 1, at + tlen + glen)
	end
	j.body = Job.size + tlen + glen -- where ext begins, less 1
	return j
end

-- load reads a job, without its body; nil when there is none.
function Job.load(id)
	local key = Job.key(id)
	if Buf.gone[key] then return nil end
	local s = call('GETRANGE', key, 0, 255)
	if #s < Job.size then return nil end
	return Job.parse(id, s)
end

-- whole reads a job with its body.
function Job.whole(id)
	local key = Job.key(id)
	if Buf.gone[key] then return nil end
	local s = call('GET', key)
	if not s or #s < Job.size then return nil end
	local j = Job.parse(id, s)
	j.all = true
	return j
end

function Job.header(j)
	return pack(Job.format, j.state * 32 + j.reason, j.flags + j.ended * ENDED, (unpack_('>I3', j.task)), j.prio, j.runat,
		j.pseq, j.eseq, j.enqueued, j.changed, j.claimed, j.expires, j.token, j.attempts, j.most, j.failures, j.tlen % 256, j.glen % 256,
		j.xlen, j.bytes)
end

-- save writes the header back.
function Job.save(j) call('SETRANGE', Job.key(j.id), 0, Job.header(j)) end

function Job.is(j, flag) return band(j.flags, flag) ~= 0 end
function Job.mark(j, flag, on)
	if on then j.flags = bor(j.flags, flag) else j.flags = band(j.flags, bnot(flag)) end
end

-- The parts of ext, each there if its bit of the first byte is set.
local X_KEY, X_BATCH, X_SIZE, X_RETAIN, X_START = 1, 2, 4, 8, 16
local NOEXT = {}

-- ext returns what few jobs have: hold, keyfor, digest, key; batch, ordinal;
-- size; retain, start (µs).
function Job.ext(j)
	if j.x then return j.x end
	if j.xlen == 0 then return NOEXT end
	local s = j.rec
	if #s < j.body + j.xlen then
		s = call('GETRANGE', Job.key(j.id), 0, j.body + j.xlen - 1)
		j.rec = s
	end
	local x, i = {}, j.body + 1
	local mask
	mask, i = unpack_('>B', s, i)
	if band(mask, X_KEY) ~= 0 then
		x.hold, x.keyfor, x.digest, x.key, i = unpack_('>BI8c16I2c0', s, i)
	end
	if band(mask, X_BATCH) ~= 0 then x.batch, x.ordinal, i = unpack_('>c16I4', s, i) end
	if band(mask, X_SIZE) ~= 0 then x.size, i = unpack_('>I4', s, i) end
	if band(mask, X_RETAIN) ~= 0 then
		x.retain, i = unpack_('>i8', s, i)
		x.retain = math.ceil(x.retain / 1000)
		if x.retain == 0 then x.retain = -1 end
	end
	if band(mask, X_START) ~= 0 then
		x.start, i = unpack_('>i8', s, i)
		x.start = math.ceil(x.start / 1000)
	end
	j.x = x
	return x
end

-- set sets or (false) removes a field of the hash beside the record: w the last
-- worker, e an error text, r a result, p and l progress and log lines, b and n
-- which members a completion job waits for, k the end of its retention.
function Job.set(j, field, value)
	local key = P .. 'x' .. j.id
	if value then
		call('HSET', key, field, value)
		Job.mark(j, EXTRA, true)
	elseif Job.is(j, EXTRA) then
		call('HDEL', key, field)
	end
end

function Job.get(j, field)
	if not Job.is(j, EXTRA) then return nil end
	return call('HGET', P .. 'x' .. j.id, field) or nil
end

-- worker returns who holds or last held a job.
function Job.worker(j)
	if j.state ~= LEASED then return Job.get(j, 'w') or '' end
	local t = Buf.h[P .. 'w']
	if t and t[j.id] then return t[j.id] end
	return call('HGET', P .. 'w', j.id) or ''
end

-- show packs a job for a reader: id, record, task, worker, fields of the hash x.
function Job.show(j)
	if not j.all then
		local s = call('GET', Job.key(j.id))
		j.rec, j.all = s, true
	end
	local fields = {}
	if Job.is(j, EXTRA) then fields = call('HGETALL', P .. 'x' .. j.id) end
	local out = { j.id .. str(Job.header(j) .. string.sub(j.rec, Job.size + 1)), str(Task.named(j.task)), str(Job.worker(j)), pack('>I2', #fields / 2) }
	for i = 1, #fields, 2 do
		out[#out + 1] = fields[i]
		out[#out + 1] = str(fields[i + 1])
	end
	return table.concat(out)
end
