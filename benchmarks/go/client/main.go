// Command client is client-go as the benchmarks ask it: benchmarks/worker.py says how, and does the same for
// Python's clients.
//
//	client               orders, one per line of stdin, until it ends
//	client KUBECONFIG    one request, then "done" and the end
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const namespaces = 4

type order struct {
	Do          string
	Kubeconfig  string
	Kubeconfigs []string
	Callers     int
	Seconds     float64
	Pause       float64
}

type answer map[string]any

type worker struct {
	client corev1.CoreV1Interface
	fleet  []corev1.CoreV1Interface
}

func main() {
	log.SetFlags(0)
	begin := time.Now()
	w := &worker{}
	if len(os.Args) > 1 {
		client, err := open(os.Args[1])
		if err == nil {
			err = ask(client)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("done")
		return
	}
	out := json.NewEncoder(os.Stdout)
	out.Encode(answer{"us": since(begin)})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var what order
		if err := json.Unmarshal(lines.Bytes(), &what); err != nil {
			log.Fatal(err)
		}
		said, err := w.obey(what)
		if err != nil {
			said = answer{"error": failure(err)}
		}
		out.Encode(said)
	}
}

func (w *worker) obey(what order) (answer, error) {
	begin := time.Now()
	var err error
	switch what.Do {
	case "open":
		w.client, err = open(what.Kubeconfig)
	case "ask":
		err = ask(w.client)
	case "warm":
		return w.warm(what.Callers, duration(what.Seconds)), nil
	case "crowd":
		return w.crowd(what.Callers), nil
	case "steady":
		return w.steady(duration(what.Seconds), duration(what.Pause)), nil
	case "load":
		_, err = clientcmd.BuildConfigFromFlags("", what.Kubeconfig)
	case "fleet":
		return w.openAll(what.Kubeconfigs)
	case "close":
	default:
		err = errors.New("what?")
	}
	return answer{"us": since(begin)}, err
}

func open(kubeconfig string) (corev1.CoreV1Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// By default five requests a second.
	config.QPS = -1
	return corev1.NewForConfig(config)
}

func ask(client corev1.CoreV1Interface) error {
	list, err := client.Namespaces().List(context.Background(), metav1.ListOptions{})
	if err == nil && len(list.Items) != namespaces {
		err = errors.New("wrong answer")
	}
	return err
}

// warm has each caller ask again as soon as it has its answer.
func (w *worker) warm(callers int, lasts time.Duration) answer {
	found := make([][]int64, callers)
	failures := tally{counts: map[string]int{}}
	begin := time.Now()
	together(callers, func(number int) {
		for time.Since(begin) < lasts {
			start := time.Now()
			if err := ask(w.client); err != nil {
				failures.add(failure(err))
				continue
			}
			found[number] = append(found[number], since(start))
		}
	})
	elapsed := since(begin)
	latencies := []int64{}
	for _, mine := range found {
		latencies = append(latencies, mine...)
	}
	return answer{"us": elapsed, "latencies": latencies, "failures": failures.counts}
}

// crowd is everybody at once, once each.
func (w *worker) crowd(callers int) answer {
	outcomes := tally{counts: map[string]int{}}
	begin := time.Now()
	together(callers, func(int) {
		if err := ask(w.client); err != nil {
			outcomes.add(failure(err))
		} else {
			outcomes.add("ok")
		}
	})
	ok := outcomes.counts["ok"]
	delete(outcomes.counts, "ok")
	return answer{"us": since(begin), "ok": ok, "failures": outcomes.counts}
}

// steady is one caller for a while: when it asked, how long that took, and whether it failed.
func (w *worker) steady(lasts, pause time.Duration) answer {
	samples := [][3]int64{}
	failures := tally{counts: map[string]int{}}
	begin := time.Now()
	for time.Since(begin) < lasts {
		start := time.Now()
		failed := int64(0)
		if err := ask(w.client); err != nil {
			failures.add(failure(err))
			failed = 1
		}
		samples = append(samples, [3]int64{start.Sub(begin).Microseconds(), since(start), failed})
		time.Sleep(pause)
	}
	return answer{"samples": samples, "failures": failures.counts}
}

func (w *worker) openAll(kubeconfigs []string) (answer, error) {
	before, begin := residentBytes(), time.Now()
	for _, kubeconfig := range kubeconfigs {
		client, err := open(kubeconfig)
		if err == nil {
			err = ask(client)
		}
		if err != nil {
			return nil, err
		}
		w.fleet = append(w.fleet, client)
	}
	return answer{"bytes": residentBytes() - before, "us": since(begin)}, nil
}

func together(callers int, do func(number int)) {
	var all sync.WaitGroup
	for number := range callers {
		all.Go(func() { do(number) })
	}
	all.Wait()
}

type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]++
}

// failure says what it was, without its text: that may hold a path or a token.
func failure(err error) string {
	var status apierrors.APIStatus
	var exit *exec.ExitError
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("StatusError %d", status.Status().Code)
	case errors.As(err, &exit):
		return "ExitError"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}

func residentBytes() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func since(start time.Time) int64 { return time.Since(start).Microseconds() }

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
