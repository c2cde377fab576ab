package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Scope is what a credential allows.
type Scope string

// The scopes. One does not imply another.
const (
	Public  Scope = "" // no credential: health, the description of the API
	Produce Scope = "produce"
	Work    Scope = "work"
	Read    Scope = "read"
	Operate Scope = "operate"
	Anyone  Scope = "any" // whatever a credential covers
)

// Scopes lists those that a credential can have.
var Scopes = [...]Scope{Produce, Work, Read, Operate}

// Credential is what a caller shows in the header "Authorization: Bearer …". The
// server keeps no more than its hash: make one with NewCredential. To rotate one,
// let two of the same name live for a while.
type Credential struct {
	Name   string  // of who has it, for the audit log
	Hash   string  // SHA-256 of the secret, 64 hexadecimal digits: HashSecret
	Scopes []Scope // that it allows
}

// secretPrefix lets people and scanners see what a string is.
const secretPrefix = "spool_"

// NewSecret makes a secret of 256 random bits.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return secretPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// HashSecret is what a Credential keeps of a secret. The secret has 256 random
// bits, so a slow hash would protect nothing.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// keyring are the credentials of a server.
type keyring []key

type key struct {
	name   string
	hash   [sha256.Size]byte
	scopes map[Scope]bool
}

func newKeyring(list []Credential) (keyring, error) {
	var ring keyring
	for i := range list {
		c := &list[i]
		if err := c.Check(); err != nil {
			return nil, fmt.Errorf("credential %d (%.64q): %w", i+1, c.Name, err)
		}
		k := key{name: c.Name, scopes: map[Scope]bool{}}
		_, _ = hex.Decode(k.hash[:], []byte(c.Hash)) // checked above
		for _, scope := range c.Scopes {
			k.scopes[scope] = true
		}
		ring = append(ring, k)
	}
	return ring, nil
}

// Check says what is wrong with c.
func (c *Credential) Check() error {
	if b, err := hex.DecodeString(c.Hash); err != nil || len(b) != sha256.Size {
		command := "spool credential NAME --scope SCOPE"
		if c.Name != "" && len(c.Scopes) > 0 {
			command = "spool credential " + c.Name
			for _, scope := range c.Scopes {
				command += " --scope " + string(scope)
			}
		}
		return fmt.Errorf("hash is not a SHA-256 in 64 hexadecimal digits: make a secret and its hash with: %s", command)
	}
	if c.Name == "" {
		return errors.New("it has no name")
	}
	if len(c.Scopes) == 0 {
		return fmt.Errorf("it has no scopes, and so allows nothing: any of %v would do", Scopes)
	}
	for _, scope := range c.Scopes {
		if !slices.Contains(Scopes[:], scope) {
			return fmt.Errorf("scope %.32q is unknown: allowed are %v", scope, Scopes)
		}
	}
	return nil
}

// find returns the key that a header shows; nil when it is none. It compares
// with every key, in constant time.
func (ring keyring) find(authorization string) *key {
	scheme, secret, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	var found *key
	for i := range ring {
		if subtle.ConstantTimeCompare(hash[:], ring[i].hash[:]) == 1 {
			found = &ring[i]
		}
	}
	return found
}
