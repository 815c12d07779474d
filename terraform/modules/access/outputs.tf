output "key_name" {
  description = "Name of the key pair that may log in to every host."
  value       = aws_key_pair.admin.key_name
}

output "bastion" {
  description = "Public address of the bastion host; null: there is none."
  value       = one([for address in aws_eip.bastion : address.public_ip])
}

output "bastion_user" {
  description = "Who logs in to the bastion host; null: there is none."
  value       = one([for bastion in module.bastion : bastion.host.ssh_user])
}

output "bastion_instance" {
  description = "Id of the bastion host's instance; null: there is none."
  value       = one([for bastion in module.bastion : bastion.host.instance_id])
}
