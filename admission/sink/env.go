package sink

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// The supported protocols of OTLP.
const protocolGRPC, protocolHTTP = "grpc", "http/protobuf"

// env has the settings of OpenTelemetry's environment variables for an exporter of logs. Variables for logs take precedence over those
// for all signals.
type env struct {
	protocol string
	headers  map[string]string
	compress bool
	timeout  time.Duration
	tls      *tls.Config
}

// readEnv reads the variables. An error names the one that is wrong.
func readEnv(getenv func(string) string) (*env, error) {
	get := func(name string) (value, found string) {
		for _, prefix := range []string{"OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_"} {
			if value = strings.TrimSpace(getenv(prefix + name)); value != "" {
				return value, prefix + name
			}
		}
		return "", "OTEL_EXPORTER_OTLP_" + name
	}
	e := &env{}
	value, name := get("PROTOCOL")
	switch e.protocol = cmp.Or(value, protocolGRPC); e.protocol {
	case protocolGRPC, protocolHTTP:
	default:
		return nil, fmt.Errorf("%s %q: must be %s or %s", name, value, protocolGRPC, protocolHTTP)
	}
	value, name = get("COMPRESSION")
	switch value {
	case "gzip":
		e.compress = true
	case "", "none":
	default:
		return nil, fmt.Errorf("%s %q: must be gzip or none", name, value)
	}
	value, name = get("TIMEOUT")
	millis, err := strconv.Atoi(cmp.Or(value, "10000"))
	if err != nil || millis < 1 {
		return nil, fmt.Errorf("%s %q: must be milliseconds, at least 1", name, value)
	}
	e.timeout = time.Duration(millis) * time.Millisecond
	value, name = get("HEADERS")
	if e.headers, err = readHeaders(value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err) // does not quote the value, which may be a secret
	}
	e.tls, err = readTLS(get)
	return e, err
}

// readHeaders parses pairs such as name=value,other=value. Values are percent-encoded as in URLs.
func readHeaders(all string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(all, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil || strings.ContainsAny(key, " :\t\r\n") || strings.ContainsAny(decoded, "\r\n") {
			return nil, fmt.Errorf("must be comma-separated pairs such as name=value")
		}
		headers[key] = decoded
	}
	return headers, nil
}

// readTLS reads the trusted CAs. The client's certificate is read again for each connection.
func readTLS(get func(string) (value, name string)) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, name := get("CERTIFICATE"); file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("%s: %s must contain PEM certificates", name, file)
		}
	}
	certificate, name := get("CLIENT_CERTIFICATE")
	key, keyName := get("CLIENT_KEY")
	if certificate == "" && key == "" {
		return config, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", name, keyName, err)
	}
	config.GetClientCertificate = load
	return config, nil
}
