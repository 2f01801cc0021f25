// Command load asks one URL over and over, over plain HTTP/1.1 connections that it keeps: as many as there are
// clients. It writes the request and looks for the end of the answer, and does nothing else, so that who is
// measured is the other side.
//
//	load ADDRESS PATH    orders, one per line of stdin: clients and seconds; says answers, failures, seconds
//	load serve           a server that says the same to everybody: how much can be asked at most
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		serve()
	}
	if len(os.Args) != 3 {
		log.Fatal("usage: load ADDRESS PATH | load serve")
	}
	var clients int
	var seconds float64
	for {
		if _, err := fmt.Scanln(&clients, &seconds); err != nil {
			return
		}
		answers, failures, took := run(os.Args[1], os.Args[2], clients, seconds)
		fmt.Println(answers, failures, took.Seconds())
	}
}

func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("Serves on", listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, 1000))
	})))
}

func run(address, path string, clients int, seconds float64) (answers, failures int, took time.Duration) {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * float64(time.Second)))
	for range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			mine, wrong := client(address, request, end)
			mu.Lock()
			defer mu.Unlock()
			answers += mine
			failures += wrong
		}()
	}
	all.Wait()
	return answers, failures, time.Since(begin)
}

func client(address string, request []byte, end time.Time) (answers, failures int) {
	for time.Now().Before(end) {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			failures++
			continue
		}
		reader := bufio.NewReaderSize(connection, 65536)
		for time.Now().Before(end) {
			if _, err = connection.Write(request); err == nil {
				err = answer(reader)
			}
			if err != nil {
				failures++
				break
			}
			answers++
		}
		connection.Close()
	}
	return answers, failures
}

// answer reads one to its end, by its length or by its chunks.
func answer(reader *bufio.Reader) error {
	status, err := reader.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
		return fmt.Errorf("it said %s", status)
	}
	length, chunked := 0, false
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		switch strings.ToLower(name) {
		case "content-length":
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		case "transfer-encoding":
			chunked = true
		}
	}
	if !chunked {
		_, err = reader.Discard(length)
		return err
	}
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimRight(line, "\r\n"), 16, 64)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, reader, size+2); err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
	}
}
