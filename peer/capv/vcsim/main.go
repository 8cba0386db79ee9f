// SPDX-License-Identifier: Apache-2.0

// Command vcsim is a simulated vCenter for the genuine manager of the vSphere provider:
// govmomi's simulator with one template of virtual machines. It also lists, for the test
// that boots them elsewhere, the machines that have power, with their user data, and
// gives each an address when it is listed, as a guest does when it has booted.
//
// It prints its addresses as a line of JSON and runs until its stdin ends.
package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // tags
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Addresses are what the program prints.
type Addresses struct {
	VCenter  string `json:"vCenter"` // host:port
	Username string `json:"username"`
	Password string `json:"password"`
	Machines string `json:"machines"` // URL
}

// Machine is a virtual machine that has power.
type Machine struct {
	Name     string `json:"name"`
	UUID     string `json:"uuid"`
	Version  string `json:"version"` // of Kubernetes on its image: its VMX key capstan.version
	UserData []byte `json:"userData"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vcsim:", err)
		os.Exit(1)
	}
}

func run() error {
	model := simulator.VPX()
	model.Host, model.Machine = 0, 1 // the machine is the template DC0_C0_RP0_VM0
	defer model.Remove()
	if err := model.Create(); err != nil {
		return err
	}
	for _, entity := range model.Map().All("VirtualMachine") {
		if vm, ok := entity.(*simulator.VirtualMachine); ok {
			model.Map().Put(&image{vm})
		}
	}
	model.Service.TLS = new(tls.Config)
	model.Service.RegisterEndpoints = true
	vCenter := model.Service.NewServer()
	defer vCenter.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		all, err := machines(model)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(all) // a client that left needs no answer
	})
	go func() { _ = http.Serve(listener, mux) }() // ends with the program
	password, _ := vCenter.URL.User.Password()
	if err := json.NewEncoder(os.Stdout).Encode(Addresses{
		VCenter: vCenter.URL.Host, Username: vCenter.URL.User.Username(), Password: password, Machines: "http://" + listener.Addr().String() + "/machines",
	}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// image is the template of virtual machines.
type image struct{ *simulator.VirtualMachine }

// CloneVMTask gives the clone the options that the client requests, such as user data,
// which the simulator omits.
func (i *image) CloneVMTask(ctx *simulator.Context, req *types.CloneVM_Task) soap.HasFault {
	body := i.VirtualMachine.CloneVMTask(ctx, req)
	cloned, ok := body.(*methods.CloneVM_TaskBody)
	if !ok || cloned.Res == nil || req.Spec.Config == nil {
		return body
	}
	task, ok := ctx.Map.Get(cloned.Res.Returnval).(*simulator.Task)
	if !ok {
		return body
	}
	go func() { // the task needs the lock that this call has
		task.Wait()
		ref, ok := task.Info.Result.(types.ManagedObjectReference)
		if !ok {
			return
		}
		if vm, ok := ctx.Map.Get(ref).(*simulator.VirtualMachine); ok {
			ctx.Map.WithLock(&simulator.Context{}, vm, func() { vm.Config.ExtraConfig = append(vm.Config.ExtraConfig, req.Spec.Config.ExtraConfig...) })
		}
	}()
	return body
}

// given is how many addresses were given.
var given atomic.Int32

// machines lists the virtual machines that have power and user data.
func machines(model *simulator.Model) ([]Machine, error) {
	all := []Machine{}
	ctx := model.Service.Context
	for _, entity := range model.Map().All("VirtualMachine") {
		vm, ok := entity.(*simulator.VirtualMachine)
		if !ok {
			continue
		}
		var err error
		model.Map().WithLock(ctx, vm, func() {
			keys := map[string]string{}
			for _, o := range vm.Config.ExtraConfig {
				if v, ok := o.GetOptionValue().Value.(string); ok {
					keys[o.GetOptionValue().Key] = v
				}
			}
			if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn || keys["guestinfo.userdata"] == "" {
				return
			}
			m := Machine{Name: vm.Name, UUID: strings.ToLower(vm.Config.Uuid), Version: keys["capstan.version"]}
			if m.UserData, err = base64.StdEncoding.DecodeString(keys["guestinfo.userdata"]); err != nil {
				err = fmt.Errorf("user data of %s: %w", vm.Name, err)
				return
			}
			all = append(all, m)
			address(model, vm)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// address lets the tools of a guest report an address of its first network card, if they
// have not.
func address(model *simulator.Model, vm *simulator.VirtualMachine) {
	if len(vm.Guest.Net) > 0 && len(vm.Guest.Net[0].IpAddress) > 0 {
		return
	}
	for _, d := range vm.Config.Hardware.Device {
		if card, ok := d.(types.BaseVirtualEthernetCard); ok {
			n := given.Add(1)
			ip := fmt.Sprintf("10.77.%d.%d", n/250, n%250+1)
			model.Map().Update(model.Service.Context, vm, []types.PropertyChange{{Name: "guest.net", Val: []types.GuestNicInfo{{
				MacAddress: card.GetVirtualEthernetCard().MacAddress, IpAddress: []string{ip}, Connected: true,
			}}}, {Name: "guest.ipAddress", Val: ip}})
			return
		}
	}
}
