output "profiles" {
  description = "Name of each role's instance profile."
  value       = { for role, profile in aws_iam_instance_profile.host : role => profile.name }
}
