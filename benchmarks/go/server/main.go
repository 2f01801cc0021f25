// Command server is what every benchmark asks: an API server on loopback that knows a list of namespaces,
// issues the credentials that its plugin prints, and refuses them once they are over or revoked.
//
//	server serve              HTTPS, HTTP/1.1 and HTTP/2, and a control port, until stdin ends
//	server plugin PORT RUN    the exec plugin: asks the control port for a credential of that run
//
// A run is one measurement of one client: it has settings and counts of its own. What the control port is
// told and answers is one line of JSON each; benchmarks/asyncio_server.py does the same where there is no Go.
package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed answers.json
var answersFile []byte

const unauthorized = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"Unauthorized","reason":"Unauthorized","code":401}`

func main() {
	log.SetFlags(0)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 4 && os.Args[1] == "plugin":
		plugin(os.Args[2], os.Args[3])
	default:
		log.Fatal("usage: server serve | server plugin PORT RUN")
	}
}

// plugin does nothing by itself, so that a run of it costs next to nothing but the process.
func plugin(port, run string) {
	connection, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(connection, "{\"do\": \"issue\", \"run\": %q}\n", run)
	if _, err := io.Copy(os.Stdout, connection); err != nil {
		log.Fatal(err)
	}
}

type run struct {
	mu       sync.Mutex
	kind     string        // token or certificate
	lifetime time.Duration // of what is issued after until
	until    time.Time     // when what is issued before is over
	delay    time.Duration // how long the plugin takes
	issued   int
	revoked  atomic.Int64 // credentials up to this number are refused
	answered atomic.Int64
	refused  atomic.Int64
}

type server struct {
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
	answers   map[string][]byte
	runs      sync.Map // name -> *run
}

func (s *server) run(name string) *run {
	if found, known := s.runs.Load(name); known {
		return found.(*run)
	}
	found, _ := s.runs.LoadOrStore(name, &run{kind: "token", lifetime: time.Hour})
	return found.(*run)
}

// ServeHTTP verifies the credential of each request, as an API server does: a kept-alive connection does not
// make a certificate last longer.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	by := s.authenticated(r)
	if by == nil {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, unauthorized)
		return
	}
	by.answered.Add(1)
	body, found := s.answers[strings.TrimSuffix(r.URL.Path, "/")]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Write(body)
}

func (s *server) authenticated(r *http.Request) *run {
	var name string
	var over time.Time
	if token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		end := strings.LastIndexByte(token, '.')
		if end < 0 {
			return nil
		}
		seconds, err := strconv.ParseInt(token[end+1:], 10, 64)
		if err != nil {
			return nil
		}
		name, over = token[:end], time.Unix(seconds, 0)
	} else if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		certificate := r.TLS.PeerCertificates[0]
		name, over = certificate.Subject.CommonName, certificate.NotAfter
	} else {
		return nil
	}
	name, number, _ := strings.Cut(name, ".")
	serial, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil
	}
	of := s.run(name)
	if time.Now().After(over) || serial <= of.revoked.Load() {
		of.refused.Add(1)
		return nil
	}
	return of
}

type order struct {
	Do       string
	Run      string
	Kind     string
	Lifetime float64
	Until    int64
	Delay    float64
}

func (s *server) control(connection net.Conn) {
	defer connection.Close()
	line, err := bufio.NewReader(connection).ReadBytes('\n')
	if err != nil {
		return
	}
	var what order
	var answer any = map[string]string{"error": "what?"}
	if err := json.Unmarshal(line, &what); err == nil {
		answer = s.obey(what)
	}
	json.NewEncoder(connection).Encode(answer)
}

func (s *server) obey(what order) any {
	of := s.run(what.Run)
	if what.Do == "issue" {
		return s.issue(what.Run, of)
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	switch what.Do {
	case "set":
		of.kind, of.lifetime, of.delay = what.Kind, seconds(what.Lifetime), seconds(what.Delay)
		of.until = time.Unix(what.Until, 0)
	case "revoke":
		of.revoked.Store(int64(of.issued))
	}
	return map[string]int64{
		"issued": int64(of.issued), "answered": of.answered.Load(), "refused": of.refused.Load(),
	}
}

func (s *server) issue(name string, of *run) any {
	of.mu.Lock()
	of.issued++
	serial, kind, delay := of.issued, of.kind, of.delay
	of.mu.Unlock()
	time.Sleep(delay)
	of.mu.Lock()
	over := of.until
	// Whole seconds, as plugins print them.
	if time.Until(over) < time.Second/2 {
		ends := time.Now().Add(of.lifetime)
		over = time.Unix(int64(math.Ceil(float64(ends.UnixNano())/1e9)), 0)
	}
	of.mu.Unlock()
	status := map[string]string{"expirationTimestamp": over.UTC().Format(time.RFC3339)}
	subject := fmt.Sprintf("%s.%d", name, serial)
	if kind == "certificate" {
		status["clientCertificateData"], status["clientKeyData"] = s.signed(subject, over)
	} else {
		status["token"] = fmt.Sprintf("%s.%d", subject, over.Unix())
	}
	// v1beta1, since not every client knows v1.
	return map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": status,
	}
}

func (s *server) signed(subject string, over time.Time) (certificate, key string) {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: must(rand.Int(rand.Reader, big.NewInt(math.MaxInt64))),
		Subject:      pkix.Name{CommonName: subject},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     over,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, s.authority, &private.PublicKey, s.key))
	return inPEM("CERTIFICATE", der), inPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(private)))
}

func serve() {
	s := &server{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), answers: answers()}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "kubeauth benchmarks"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &s.key.PublicKey, s.key))
	s.authority = must(x509.ParseCertificate(der))

	certificate, key := s.signed("server", template.NotAfter)
	pair := must(tls.X509KeyPair([]byte(certificate), []byte(key)))
	// As a real API server: it asks everybody for a certificate, and verifies with each request.
	settings := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	https := must(net.Listen("tcp", "127.0.0.1:0"))
	control := must(net.Listen("tcp", "127.0.0.1:0"))
	// Clients that are killed, and those that hang up in a handshake, are nobody's news.
	web := &http.Server{Handler: s, TLSConfig: settings, ErrorLog: log.New(io.Discard, "", 0)}
	go web.ServeTLS(https, "", "")
	go func() {
		for {
			connection, err := control.Accept()
			if err != nil {
				return
			}
			go s.control(connection)
		}
	}()
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"url":     fmt.Sprintf("https://%s", https.Addr()),
		"control": control.Addr().(*net.TCPAddr).Port,
		"ca":      inPEM("CERTIFICATE", der),
	})
	io.Copy(io.Discard, os.Stdin)
}

func answers() map[string][]byte {
	var documents map[string]json.RawMessage
	if err := json.Unmarshal(answersFile, &documents); err != nil {
		log.Fatal(err)
	}
	found := map[string][]byte{}
	for path, document := range documents {
		var compact bytes.Buffer
		if err := json.Compact(&compact, document); err != nil {
			log.Fatal(err)
		}
		found[path] = compact.Bytes()
	}
	return found
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
