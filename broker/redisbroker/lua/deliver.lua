-- deliver enqueues a follow-up that another queue's outbox holds, once: its call
-- id is remembered (P) until that queue has forgotten the entry.
-- Call: call id of the entry, what (0 deliver, 1 the entry is forgotten), job.
-- Answer: status, how, id.

local function deliver(arg)
	local id, what, i = unpack_('>c16B', arg)
	local key = P .. 'P' .. id
	local was = call('GET', key)
	if what == 1 then
		if was then call('PEXPIRE', key, CALL_MS) end
		return OK
	end
	if was then return was end
	Q.promote(100)
	local how, job = Add.one((Add.read(arg, i)))
	local answer = OK .. string.char(how) .. job
	call('SET', key, answer, 'PX', 604800000)
	return answer
end

return run(deliver)
