// A file by HTTP: `transfer serve ADDRESS FILE`, `transfer fetch URL FILE`. Built without cgo, it
// asks no C library for anything.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	if os.Args[1] == "serve" {
		http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
			log.Print("asked by ", r.RemoteAddr)
			http.ServeFile(w, r, os.Args[3])
		})
		log.Fatal(http.ListenAndServe(os.Args[2], nil))
	}
	response, err := http.Get(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode != 200 {
		log.Fatal(response.Status)
	}
	file, err := os.Create(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(file, response.Body); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
}
