package push

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// transport connects to where a target may lead: the address is looked at that is
// really dialled, after its name was resolved, so that no name can lead elsewhere
// later. No proxy of the environment stands between.
func transport(t *Target) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if !t.AllowPrivate {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return public(address) }
	}
	return &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: t.Concurrency,
		IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		ResponseHeaderTimeout: t.Timeout,
	}
}

// noRedirect takes an answer as it is: where it leads was not chosen by who set
// up the target.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// special are the networks that are not of the public Internet (IANA's registries
// of special-purpose addresses, RFC 6890 and its updates), beside those that
// package netip knows.
var special = func() (all []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}()

// public refuses an address that is not of the public Internet.
func public(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.New("the target leads to no address of the Internet")
	}
	if ip := at.Addr().Unmap().WithZone(""); !reachable(ip) {
		return fmt.Errorf("the target leads to %s, which is not of the public Internet: allow_private lets it", ip)
	}
	return nil
}

// private reports whether a host is known, without asking anybody, to lead nowhere
// in the public Internet.
func private(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && !reachable(ip.Unmap().WithZone(""))
}

// reachable reports whether an address is of the public Internet.
func reachable(ip netip.Addr) bool {
	bad := ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || ip.IsInterfaceLocalMulticast()
	for _, net := range special {
		bad = bad || net.Contains(ip)
	}
	return !bad
}
