package replicas

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// client is one for a single question: files are read anew for each.
func (o *Endpoint) client() (*http.Client, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: o.SkipVerify, //nolint:gosec // only where a flag asks for it by that name
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--endpoint-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--endpoint-ca-file %s: no certificate in it", o.CAFile)
		}
	}
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// refused says in one line what an answer other than 200 means.
func (o *Endpoint) refused(response *http.Response) error {
	const most = 256 // bytes of what the other side says
	said, _ := io.ReadAll(io.LimitReader(response.Body, most))
	says := strings.TrimSpace(text.Visible(string(said)))
	if says != "" {
		says = ": " + says
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized && o.TokenFile == "":
		return errors.New("--endpoint: " + response.Status + says + "; it wants a token, see --endpoint-token-file")
	case response.StatusCode == http.StatusNotFound:
		return errors.New("--endpoint: " + response.Status + says + "; is it the metrics address of a replica of this version?")
	}
	return errors.New("--endpoint: " + response.Status + says)
}
