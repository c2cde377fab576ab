-- idle takes claims off the idle ones, or, when they were told and are gone,
-- tells others. Call: call id (none), number, ids of waiting claims. Answer: status.

local function idle(arg)
	local _, n, i = unpack_('>c16I4', arg)
	local gone = 0
	for _ = 1, n do
		local waiter
		waiter, i = unpack_('>c16', arg, i)
		if call('ZREM', P .. 'Z', waiter) == 0 then gone = gone + 1 end
		call('ZREM', P .. 'z*', waiter)
		for _, no in ipairs(Task.all()) do call('ZREM', P .. 'z' .. no, waiter) end
	end
	if gone > 0 then
		for _, no in ipairs(Task.all()) do
			if Count.task(no)[READY] > 0 then Wake.ready(no, gone) end
		end
	end
	return OK
end

return run(idle)
