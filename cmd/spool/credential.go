package main

import (
	"strings"

	"github.com/spoolq/spool/server"
)

type credentialCmd struct {
	Name  name     `arg:"" help:"Of who gets it, for the audit log."`
	Scope []string `required:"" enum:"produce,work,read,operate" placeholder:"SCOPE" help:"What it allows: produce, work, read, operate. May be repeated."`
}

// Help is shown by spool credential --help.
func (*credentialCmd) Help() string {
	return "Prints a new secret, once, and the entry for the configuration of spool serve, which holds no more than its hash. " +
		"To rotate a secret, let two entries of the same name live for a while."
}

// newCredential is a credential as --json prints it.
type newCredential struct {
	Secret     string          `json:"secret"`
	Credential credentialEntry `json:"credential"`
}

// credentialEntry is what belongs into the configuration.
type credentialEntry struct {
	Name   string   `json:"name"`
	Hash   string   `json:"hash"`
	Scopes []string `json:"scopes"`
}

// Run makes a credential. It stores nothing.
func (c *credentialCmd) Run(a *app) error {
	secret := server.NewSecret()
	entry := credentialEntry{string(c.Name), server.HashSecret(secret), c.Scope}
	if a.json {
		return a.object(newCredential{secret, entry})
	}
	if err := a.printf("%s", secret); err != nil {
		return err
	}
	a.note("that is the secret of %s: it is shown once; send it as \"Authorization: Bearer …\"", c.Name)
	a.note("put this into credentials of the configuration: {\"name\": %q, \"hash\": %q, \"scopes\": [\"%s\"]}", entry.Name, entry.Hash, strings.Join(entry.Scopes, `", "`))
	return nil
}
