package main

import (
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
)

// questions are bytes, since neither patterns nor names need be UTF-8.
type questions struct {
	Pairs [][2][]byte `json:"pairs"`
	Names [][]byte    `json:"names"`
}

// images says of each pair whether the pattern can be read and whether it matches the image, and of each
// name what it is in full; nothing stands for a refusal. It follows the rules of the kubelet with the
// libraries that the kubelet has them from.
func images(from io.Reader) map[string]any {
	var asked questions
	if err := json.NewDecoder(from).Decode(&asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	matches := make([][2]bool, len(asked.Pairs))
	for i, pair := range asked.Pairs {
		pattern, err := url.Parse("https://" + string(pair[0]))
		if err != nil {
			continue
		}
		matches[i][0] = true
		if image, err := url.Parse("https://" + string(pair[1])); err == nil {
			matches[i][1] = covers(pattern, image)
		}
	}
	names := make([][]string, len(asked.Names))
	for i, name := range asked.Names {
		if named, err := reference.ParseNormalizedNamed(string(name)); err == nil {
			names[i] = inFull(named)
		}
	}
	return map[string]any{"matches": matches, "names": names}
}

func covers(pattern, image *url.URL) bool {
	globs, port := labels(pattern.Host)
	parts, other := labels(image.Host)
	if port != other || len(globs) != len(parts) || !strings.HasPrefix(image.Path, pattern.Path) {
		return false
	}
	for i, glob := range globs {
		if ok, err := filepath.Match(glob, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func labels(place string) ([]string, string) {
	host, port, err := net.SplitHostPort(place)
	if err != nil {
		host, port = place, ""
	}
	return strings.Split(host, "."), port
}

func inFull(named reference.Named) []string {
	var tag, digest string
	if tagged, ok := named.(reference.Tagged); ok {
		tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		digest = digested.Digest().String()
	}
	if tag == "" && digest == "" {
		tag = "latest"
	}
	return []string{named.Name(), tag, digest}
}
