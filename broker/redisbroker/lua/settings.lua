-- settings reads the settings of a queue, as Go keeps them. Call: call id (none).
-- Answer: status, steady clock µs, revision, the settings (string S), number of
-- schedules; for each its name, whether it is paused, and its cursor.

local function settings(_)
	local out = { OK .. pack('>I8I6', Q.now, Q.revision) .. str(call('GET', P .. 'S') or '') }
	local all = call('HGETALL', P .. 'C')
	out[2] = pack('>I4', #all / 2)
	for i = 1, #all, 2 do out[#out + 1] = pack('>I2', #all[i]) .. all[i] .. all[i + 1] end
	return table.concat(out)
end

return run(settings)
