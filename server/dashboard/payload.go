package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spoolq/spool/internal/text"
)

// Bounds of what a page shows of a payload or a result.
const (
	maxShown  = 64 << 10  // bytes of text
	maxHex    = 8 << 10   // bytes shown as hex
	maxPretty = 256 << 10 // of JSON with line ends and indents; beyond that it is shown as it is
	maxDepth  = 64        // of JSON that is indented
)

// content is bytes as a page shows them.
type content struct {
	Kind string // "JSON", "text", "bytes" or "empty"
	Text string
	Size int64
	Cut  string // what is left out; "" when nothing is
}

// contentOf shows bytes: JSON indented but with its keys, numbers and strings as
// they are; other text as it is; the rest as hex.
func contentOf(b []byte) content {
	c := content{Size: int64(len(b))}
	switch {
	case len(b) == 0:
		c.Kind = "empty"
	case !isText(b[:min(len(b), maxShown)], len(b) > maxShown):
		c.Kind, c.Text = "bytes", strings.TrimSuffix(hex.Dump(b[:min(len(b), maxHex)]), "\n")
		if len(b) > maxHex {
			c.Cut = fmt.Sprintf("The first %s of %s.", text.Bytes(maxHex), text.Bytes(c.Size))
		}
	case len(b) > maxShown:
		c.Kind, c.Text = "text", safe(strings.ToValidUTF8(string(b[:maxShown]), ""), true)
		c.Cut = fmt.Sprintf("The first %s of %s.", text.Bytes(maxShown), text.Bytes(c.Size))
	default:
		c.Kind, c.Text = "text", safe(string(b), true)
		if pretty, ok := indent(b); ok {
			c.Kind, c.Text = "JSON", safe(pretty, true)
		}
	}
	return c
}

// isText reports whether bytes are UTF-8 with few control characters; of a head
// the last character may be cut.
func isText(b []byte, cut bool) bool {
	for i := 0; cut && i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); i++ {
		b = b[:len(b)-1]
	}
	if !utf8.Valid(b) {
		return false
	}
	controls := 0
	for _, r := range string(b) {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			controls++
		}
	}
	return controls <= len(b)/10
}

// indent returns JSON with line ends and indents, and nothing else changed.
func indent(b []byte) (string, bool) {
	if depthOf(b) > maxDepth || !json.Valid(b) {
		return "", false
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil || out.Len() > maxPretty {
		return "", false
	}
	return out.String(), true
}

// depthOf is how deep brackets nest, strings aside.
func depthOf(b []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}
