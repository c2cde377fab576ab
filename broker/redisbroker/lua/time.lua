-- time: what the server's clock says. It is the one thing that a test replaces.

-- Time.read returns the wall clock in microseconds since 1970, and the steady
-- clock when it is given apart (by a test); nil: Clock derives it.
local Time = {}
function Time.read(_)
	local t = call('TIME')
	return t[1] * 1000000 + t[2], nil
end
